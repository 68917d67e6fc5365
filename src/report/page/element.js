// A DOM element: make('td', { class: 'x', onclick }, 'text', other).
export function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (key === 'style') node.style.cssText = value;
    else node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined));
  return node;
}

export const byId = (id) => document.getElementById(id);

const tip = () => byId('tip');

// Lines beside the pointer; the first is bold. None: hidden.
export function showTip(lines, x, y) {
  const box = tip();
  if (!lines) {
    box.hidden = true;
    return;
  }
  box.replaceChildren(...lines.map((line, i) => make(i === 0 ? 'strong' : 'div', {}, line)));
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  const left = Math.min(x + 14, window.innerWidth - width - 8);
  const top = y + 18 + height > window.innerHeight ? y - height - 12 : y + 18;
  box.style.left = `${Math.max(4, left)}px`;
  box.style.top = `${Math.max(4, top)}px`;
}
