// Bundles the page and writes it as C++: node build.mjs OUTPUT.cc
//
// The programs, their libraries, the style sheet and the page around them become one text, to
// which `graphpipe report` adds its data.

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const [output] = process.argv.slice(2);

const bundled = await build({
  entryPoints: [join(here, 'main.js')],
  bundle: true,
  minify: true,
  write: false,
  format: 'iife',
  target: 'es2022',
  metafile: true,
  logLevel: 'warning',
});
const style = await build({ entryPoints: [join(here, 'style.css')], minify: true, write: false });

// The licences of the libraries that are in the bundle, each text once, stay with them.
function licences() {
  const packages = new Set();
  for (const input of Object.keys(bundled.metafile.inputs)) {
    const found = input.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//);
    if (found) packages.add(found[1]);
  }
  const texts = new Map();
  for (const name of [...packages].sort()) {
    const file = join(here, 'node_modules', name, 'LICENSE');
    if (!existsSync(file)) throw new Error(`${name} has no LICENSE`);
    const text = readFileSync(file, 'utf8').trim().replaceAll('--', '- -');
    texts.set(text, [...(texts.get(text) ?? []), name]);
  }
  return [...texts].map(([text, names]) => `${names.join(', ')}:\n${text}`).join('\n\n');
}

// Nothing in them may end the element that they stand in.
const script = bundled.outputFiles[0].text.replaceAll('</script', '<\\/script');
const page = readFileSync(join(here, 'index.html'), 'utf8')
  .replace('__GRAPHPIPE_LICENCES__', licences)
  .replace('__GRAPHPIPE_STYLE__', () => style.outputFiles[0].text)
  .replace('__GRAPHPIPE_SCRIPT__', () => script);

// Compilers bound the length of a literal, not of several in a row.
const bytes = Buffer.from(page, 'utf8');
const lines = [];
for (let i = 0; i < bytes.length; i += 4096) {
  let text = '';
  for (const byte of bytes.subarray(i, i + 4096)) {
    if (byte === 10) text += '\\n';
    else if (byte === 34 || byte === 92) text += `\\${String.fromCharCode(byte)}`;
    else if (byte === 63) text += '\\?'; // no trigraphs
    else if (byte < 32 || byte > 126) text += `\\${byte.toString(8).padStart(3, '0')}`;
    else text += String.fromCharCode(byte);
  }
  lines.push(`    "${text}"`);
}
writeFileSync(output, `#include "report/page_bundle.h"

namespace graphpipe {

std::string_view page_template() {
  static constexpr char kPage[] =
${lines.join('\n')};
  return {kPage, sizeof(kPage) - 1};
}

std::string_view page_template_missing() { return ""; }

}  // namespace graphpipe
`);
