// How fast a page is: node measure.mjs REPORT.html
//
// First paint: from the start of the navigation to the second frame after everything has been
// drawn. A zoom: from the wheel's event to the end of the frame that shows it; the same without
// the frame's wait is how long drawing took.

import { middleOf, withPage } from './browser.mjs';

const kZooms = 30;
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const [file] = process.argv.slice(2);

await withPage(file, async (page, problems) => {
  const painted = await page.evaluate(() => Number(document.documentElement.dataset.painted));
  const [x, y] = await middleOf(page, 2, 'tasks', 200);
  const zooms = await page.evaluate(async ([px, py, count]) => {
    const { timeline } = window.graphpipe;
    const frames = [];
    const draws = [];
    for (let i = 0; i < count; ++i) {
      const began = performance.now();
      timeline.canvas.dispatchEvent(new WheelEvent('wheel', {
        ctrlKey: true, clientX: px, clientY: py, deltaY: i % 10 < 7 ? -120 : 280, bubbles: true, cancelable: true }));
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      frames.push(performance.now() - began);
      draws.push(Number(timeline.canvas.dataset.ms));
    }
    return { frames, draws };
  }, [x, y, kZooms]);
  const ranks = await page.evaluate(() => window.graphpipe.timeline.summary());
  console.log(`${ranks}: first paint ${painted.toFixed(0)} ms; of ${kZooms} zooms the median ` +
    `${median(zooms.frames).toFixed(0)} ms, the slowest ${Math.max(...zooms.frames).toFixed(0)} ms ` +
    `(drawing: ${median(zooms.draws).toFixed(1)} and ${Math.max(...zooms.draws).toFixed(1)} ms)`);
  if (problems.length) console.log(problems);
});
