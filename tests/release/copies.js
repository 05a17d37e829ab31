// A reader of copies for other languages: places in, region and scores out.  Every number is whole and below 2^53, so
// that JavaScript's numbers hold it exactly; nothing is rounded but by the shift of a layer.
//
//   node copies.js < given.json > found.json
//
// given: {"inputs": [{"places", "ordered"}], "copies": policies' tables, "records": lists of places};
// found: for each copy, for each record, [region, scores].
"use strict";

// One input per number; a word becomes one input per category, 1 for its own and 0 for the others.
function spread(inputs, places) {
  const values = [];
  inputs.forEach((input, j) => {
    if (input.ordered) values.push(places[j]);
    else for (let word = 0; word < input.places; word++) values.push(places[j] === word ? 1 : 0);
  });
  return values;
}

// Layer by layer: sums; all but the last keep what is positive, and divide by 2^shift, rounding down.
// (Shift operators would cut numbers to 32 bits.)
function layerScores(copy, inputs, places) {
  let values = spread(inputs, places);
  copy.layers.forEach((layer, number) => {
    values = layer.weights.map((row, unit) => row.reduce((sum, w, j) => sum + w * values[j], layer.biases[unit]));
    if (number < copy.layers.length - 1)
      values = values.map((value) => Math.floor(Math.max(value, 0) / 2 ** layer.shift));
  });
  return values;
}

// From every root to a leaf (feature -1): left if the place is in the node's set, or, where there is none, if it is at
// most the threshold.  The scores are the sums of the leaves' values.
function treeScores(copy, places) {
  const sums = copy.values[0].map(() => 0);
  for (let node of copy.roots) {
    while (copy.feature[node] !== -1) {
      const place = places[copy.feature[node]], set = copy.sets[node];
      const left = set === undefined ? place <= copy.threshold[node] : set.includes(place);
      node = left ? copy.left[node] : copy.right[node];
    }
    copy.values[node].forEach((value, k) => (sums[k] += value));
  }
  return sums;
}

// The place of the largest (smallest) value, the first of equals.
const largest = (values) => values.reduce((best, value, i) => (value > values[best] ? i : best), 0);
const smallest = (values) => largest(values.map((value) => -value));

// The weighted steps between a record and a cell's median; a word's weight where it differs.
function distance(copy, inputs, places, cell) {
  return copy.sensitive.reduce((sum, column, j) => {
    const steps = Math.abs(places[column] - copy.medians[cell][j]);
    return sum + copy.weights[j] * (inputs[column].ordered ? steps : Math.min(steps, 1));
  }, 0);
}

function evaluate(copy, inputs, places) {
  if (copy.kind === "layers") {
    const scores = layerScores(copy, inputs, places);
    return [largest(scores), scores];
  }
  if (copy.kind === "trees" || copy.kind === "tree") {
    const scores = treeScores(copy, places);
    return [copy.kind === "tree" ? scores[0] : largest(scores), scores]; // a tree's leaf says the region itself
  }
  if (copy.kind === "joint") {
    // the parts' regions are digits, the first the most significant, of a position in the table; scores are the parts'
    const found = copy.parts.map((part) => evaluate(part, inputs, places));
    const at = found.reduce((position, [region], i) => position * copy.counts[i] + region, 0);
    return [copy.table[at], found.flatMap(([, scores]) => scores)];
  }
  if (copy.kind === "cells") {
    // the nearest of the cells that belong to the part's region; scores are the distances to them
    const [label] = evaluate(copy.part, inputs, places);
    const own = copy.labels.flatMap((owner, cell) => (owner === label ? [cell] : []));
    const distances = own.map((cell) => distance(copy, inputs, places, cell));
    return [own[smallest(distances)], distances];
  }
  throw new Error(`unknown kind ${copy.kind}`); // never guess: another kind of copy needs another reader
}

const { inputs, copies, records } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const found = copies.map((copy) => records.map((places) => evaluate(copy, inputs, places)));
process.stdout.write(JSON.stringify(found));
