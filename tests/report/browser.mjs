// Chromium, from Debian, with nothing of its own that asks for the network.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { chromium } from 'playwright-core';

const kFlags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync'];

// Opens the page and calls use(page, problems), where problems collects what the page complains
// of and what it asks for beside itself.
export async function withPage(file, use) {
  const profile = mkdtempSync(join(tmpdir(), 'graphpipe-browser-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', headless: true, args: kFlags,
    viewport: { width: 1280, height: 900 }, colorScheme: 'light',
  });
  try {
    const page = context.pages()[0] ?? await context.newPage();
    const problems = [];
    page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
    page.on('pageerror', (error) => problems.push(error.message));
    page.on('request', (request) => {
      if (!/^(file|data):/.test(request.url())) problems.push(`asks for ${request.url()}`);
    });
    await page.goto(`file://${file}`);
    await page.waitForFunction(() => document.documentElement.dataset.painted);
    return await use(page, problems);
  } finally {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  }
}

// Where the middle of a rank's task, or of an idle span, is on the screen.
export function middleOf(page, rank, kind, index) {
  return page.evaluate(([r, k, i]) => {
    const { timeline } = window.graphpipe;
    timeline.canvas.scrollIntoView({ block: 'center' });
    const spans = timeline.ranks[r][k];
    const box = timeline.canvas.getBoundingClientRect();
    const row = timeline.measured ? timeline.rowHeight / 4 : timeline.rowHeight / 2;
    return [box.left + timeline.scale((spans.start[i] + spans.end[i]) / 2),
      box.top + timeline.height - 6 - (timeline.ranks.length - r) * timeline.rowHeight + row];
  }, [rank, kind, index]);
}

// After what was asked for has been drawn.
export const drawn = (page) => page.evaluate(() => new Promise((done) => {
  requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done)));
}));
