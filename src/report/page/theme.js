// Colours come from the style sheet, for canvases too. Okabe and Ito's, which people with any
// colour vision tell apart; letters, dashes and heights say the same without colour.

const kNames = [
  'ink', 'muted', 'line', 'page', 'panel', 'forward', 'backward', 'weight', 'recompute', 'path',
  'limit', 'accent', 'on-forward', 'on-backward', 'idle', 'idle-producer', 'idle-transfer',
  'idle-queue', 'idle-send', 'idle-holders', 'idle-reduction', 'idle-core', 'idle-done',
];

let colours = {};

export function readTheme() {
  const style = getComputedStyle(document.documentElement);
  colours = Object.fromEntries(kNames.map((n) => [n, style.getPropertyValue(`--${n}`).trim()]));
}

export const colour = (name) => colours[name];

const kTaskColours = { F: 'forward', B: 'backward', I: 'backward', W: 'weight', R: 'recompute' };
export const taskColour = (kind) => colours[kTaskColours[kind]];

// In the order of the data's reasons.
export const kReasons = [
  'idle-producer', 'idle-queue', 'idle-transfer', 'idle-send', 'idle-holders', 'idle-reduction',
  'idle-core', 'idle-done',
];

// A canvas as sharp as the screen; returns its context, in CSS pixels, and its size.
export function prepare(canvas, height) {
  const ratio = window.devicePixelRatio || 1;
  const width = Math.max(canvas.clientWidth, 50);
  const wide = Math.round(width * ratio);
  const high = Math.round(height * ratio);
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d', { alpha: false });
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = colours.panel;
  context.fillRect(0, 0, width, height);
  return { context, width, height };
}

export const kFont = '11px system-ui, sans-serif';
