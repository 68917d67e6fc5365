// Numbers with units, as the command line writes them.

const kSeconds = [
  [1, 's'],
  [1e-3, 'ms'],
  [1e-6, 'us'],
  [1e-9, 'ns'],
];

function significant(x) {
  return x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2);
}

export function secondsText(s) {
  if (!(s > 0)) return '0 s';
  const [unit, name] = kSeconds.find(([u]) => s >= u) ?? kSeconds.at(-1);
  return `${significant(s / unit)} ${name}`;
}

export function bytesText(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (bytes >= 1024 && i + 1 < units.length) {
    bytes /= 1024;
    ++i;
  }
  return i === 0 ? `${bytes} B` : `${significant(bytes)} ${units[i]}`;
}

export function percentText(share) {
  return `${(100 * share).toFixed(1)} %`;
}

export function countText(n) {
  return Math.round(n).toLocaleString('en-US');
}

// A rate of samples, four digits where it matters.
export function rateText(x) {
  return x >= 1000 ? countText(x) : x >= 100 ? x.toFixed(1) : x.toFixed(2);
}

// "0-3, 7" of [0, 1, 2, 3, 7].
export function rangesText(numbers) {
  const parts = [];
  for (let i = 0; i < numbers.length; ) {
    let last = i;
    while (last + 1 < numbers.length && numbers[last + 1] === numbers[last] + 1) ++last;
    parts.push(last > i ? `${numbers[i]}-${numbers[last]}` : `${numbers[i]}`);
    i = last + 1;
  }
  return parts.join(', ');
}

export const kTaskNames = {
  F: 'forward',
  B: 'backward',
  I: 'backward, of the inputs',
  W: 'backward, of the weights',
  R: 'recompute',
};
