// Rows of a timeline in which boxes are a pixel or two wide, all at once: each pixel has the mix of
// colours of what is in it. Thousands of boxes cost no more than their pixels.

import { upperBound } from './data.js';
import { colour, taskColour } from './theme.js';

const picture = document.createElement('canvas');

function rgb(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

// Adds to `cover` how much of each pixel a kind of task takes.
function addCover(cover, tasks, letter, from, scale, first, last) {
  const { start, end, kind } = tasks;
  const columns = cover.length;
  for (let i = first; i < last; ++i) {
    if (kind.charCodeAt(i) !== letter) continue;
    const a = Math.max(0, (start[i] - from) * scale);
    const b = Math.min(columns, (end[i] - from) * scale);
    const left = Math.floor(a);
    const right = Math.min(Math.floor(b), columns - 1);
    if (left >= columns || b <= a) continue;
    if (left === right) {
      cover[left] += b - a;
      continue;
    }
    cover[left] += left + 1 - a;
    for (let c = left + 1; c < right; ++c) cover[c] += 1;
    cover[right] += b - right;
  }
}

// Draws all rows' tasks between two times into a box of the context; `tops` are the rows' places.
export function drawNarrow(context, rows, [from, to], left, width, tops, high) {
  const columns = Math.round(width * (window.devicePixelRatio || 1));
  picture.width = columns;
  picture.height = rows.length;
  const target = picture.getContext('2d');
  const image = target.createImageData(columns, rows.length);
  const scale = columns / (to - from);
  const cover = new Float32Array(columns);
  const mix = new Float32Array(4 * columns); // red, green, blue, and how much is taken
  const back = rgb(colour('panel'));
  rows.forEach((tasks, row) => {
    const first = Math.max(0, upperBound(tasks.start, from) - 1);
    const last = Math.min(tasks.n, upperBound(tasks.start, to));
    mix.fill(0);
    for (const letter of tasks.kinds) {
      cover.fill(0);
      addCover(cover, tasks, letter, from, scale, first, last);
      const [r, g, b] = rgb(taskColour(String.fromCharCode(letter)));
      for (let c = 0; c < columns; ++c) {
        const share = cover[c];
        if (share === 0) continue;
        mix[4 * c] += share * r;
        mix[4 * c + 1] += share * g;
        mix[4 * c + 2] += share * b;
        mix[4 * c + 3] += share;
      }
    }
    const begin = 4 * row * columns;
    for (let c = 0; c < columns; ++c) {
      const rest = Math.max(0, 1 - mix[4 * c + 3]);
      for (let i = 0; i < 3; ++i) image.data[begin + 4 * c + i] = mix[4 * c + i] + rest * back[i];
      image.data[begin + 4 * c + 3] = mix[4 * c + 3] > 0.02 ? 255 : 0; // what is under it shows
    }
  });
  target.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  tops.forEach((top, row) => context.drawImage(picture, 0, row, columns, 1, left, top, width, high));
}
