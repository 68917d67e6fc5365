// The page of `graphpipe report` in a browser: node page_test.mjs GRAPHPIPE FOLDER

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

import { drawn, middleOf, withPage } from './browser.mjs';

const [program, folder] = process.argv.slice(2);
const inFolder = (name) => join(folder, name);
const graphpipe = (...args) => execFileSync(program, args, { encoding: 'utf8' });

for (const planner of ['graphpipe', 'pipedream']) {
  graphpipe('plan', 'two-branch', '--cluster', 'summit:8', '--mini-batch', '32', '--micro-batch', '4',
    '--options', 'none', '--planner', planner, '-o', inFolder(`${planner}.json`));
}
// A run that is as was predicted has the form of any other.
graphpipe('simulate', inFolder('graphpipe.json'), '--trace', inFolder('trace.json'));
graphpipe('report', inFolder('graphpipe.json'), inFolder('pipedream.json'), '--measured',
  inFolder('trace.json'), '-o', inFolder('report.html'));
assert(existsSync(inFolder('report.html')));

const cases = {
  async 'the first plan shown is the fastest, and a sentence says what it gains'(page) {
    assert.match(await page.textContent('#headline'), /^graphpipe is 1\.\d\dx as fast as pipedream: depth 5 instead of 8/);
    assert.equal(await page.locator('#plans-body tr').count(), 2);
    assert.match(await page.textContent('#plans-body tr.chosen'), /graphpipe.*ms/s);
    assert.equal(await page.locator('#figures .figure').count(), 6);
  },

  async 'stages are boxes over the branches, and the shared one holds two'(page) {
    assert.equal(await page.locator('#stages .piece').count(), 9);
    assert.equal(await page.locator('#stages .stage-group').count(), 1);
    assert.equal(await page.locator('#stages .edge.order').count(), 0);
    assert((await page.locator('#stages .piece.critical').count()) > 0);
  },

  async 'a task under the pointer says what it is'(page) {
    await page.mouse.move(...await middleOf(page, 1, 'tasks', 0));
    await drawn(page);
    const tip = await page.textContent('#tip');
    assert.match(tip, /forward of micro-batch 0/);
    assert.match(tip, /stage 1 on rank 1/);
    assert.match(tip, /from rank 0: 4\.00 MiB/);
  },

  async 'an idle rank says whom it waits for'(page) {
    await page.mouse.move(...await middleOf(page, 1, 'idle', 0));
    await drawn(page);
    assert.match(await page.textContent('#tip'), /idle: waits for the sender.*0F0, on rank 0/s);
    await page.mouse.move(2, 2);
  },

  async 'the wheel, keys and buttons zoom'(page) {
    const shown = async () => {
      await drawn(page);
      return page.$eval('#timeline', (c) => c.dataset.to - c.dataset.from);
    };
    const all = await shown();
    await page.mouse.move(...await middleOf(page, 2, 'tasks', 3));
    await page.keyboard.down('Control');
    await page.mouse.wheel(0, -400);
    await page.keyboard.up('Control');
    const wheeled = await shown();
    assert(wheeled < all * 0.9, `${wheeled} of ${all}`);
    await page.focus('#timeline');
    await page.keyboard.press('+');
    const keyed = await shown();
    assert(keyed < wheeled * 0.8, `${keyed} of ${wheeled}`);
    await page.keyboard.press('0');
    assert(Math.abs(await shown() - all) < 1e-9);
    await page.click('#zoom-in');
    assert(await shown() < all * 0.8);
    await page.click('#fit');
    assert(Math.abs(await shown() - all) < 1e-9);
  },

  async 'keys go from task to task, and a reader hears of them'(page) {
    await page.focus('#timeline');
    await page.keyboard.press('ArrowDown');
    assert.match(await page.textContent('#announce'), /rank 1, stage 1/);
    await page.keyboard.press('Home');
    await page.keyboard.press('ArrowRight');
    assert.match(await page.textContent('#announce'), /forward of micro-batch 1/);
    assert.equal(await page.inputValue('#rank'), '1');
    assert.match(await page.textContent('#waits'), /Rank 1 idles/);
    await page.keyboard.press('Escape');
  },

  async 'memory and samples in flight reach their peaks'(page) {
    const peaks = await page.evaluate(() => ['memory', 'in-flight'].map((id) => Number(document.getElementById(id).dataset.peak)));
    const { data, timeline } = await page.evaluate(() => ({
      data: graphpipe.data.plans[0].timeline.ranks[1].peak_bytes, timeline: graphpipe.timeline.ranks[1].in_flight_limit }));
    assert(Math.abs(peaks[0] - data) <= 512 && peaks[1] === timeline, `${peaks}`);
  },

  async 'a measured run stands beside the prediction'(page) {
    assert(await page.isVisible('#measured'));
    assert.match(await page.textContent('#measured-text'), /predicted 92\.\d ms, measured 92\.\d ms/);
    assert.match(await page.textContent('#measured-body'), /1\.00x/);
  },

  async 'another plan can be chosen'(page) {
    await page.click('#plan-1');
    await drawn(page);
    assert.match(await page.textContent('#plan-name'), /^pipedream/);
    assert.equal(await page.locator('#stages .edge.order').count(), 1);
    assert(!await page.isVisible('#measured'));
    await page.focus('#plan-1');
    await page.keyboard.press('ArrowUp');
    assert.match(await page.textContent('#plan-name'), /^graphpipe/);
  },

  async 'a box of the graph leads to its rank'(page) {
    await page.locator('#stages .piece').nth(4).focus();
    await page.keyboard.press('Enter');
    await drawn(page);
    assert.equal(await page.inputValue('#rank'), '3');
  },

  async 'light and dark'(page) {
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await background();
    await page.click('#theme');
    assert.notEqual(await background(), light);
  },
};

await withPage(inFolder('report.html'), async (page, problems) => {
  for (const [name, check] of Object.entries(cases)) {
    await check(page);
    console.log(`ok  ${name}`);
  }
  assert.deepEqual(problems, []);
  console.log('ok  nothing on the console, nothing asked for');
});
