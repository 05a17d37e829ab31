// What the client's reader of copies finds: places in, region and scores out.
//
//   node copies.mjs MODULE < given.json > found.json
//
// given: {"inputs": [{"places", "ordered"}], "copies": policies' tables, "regions": how many each tells, "records": lists
// of places}; found: for each copy, for each record, [region, scores].
import fs from "node:fs";
const { readCopy } = await import(process.argv[2]);
const { inputs, copies, regions, records } = JSON.parse(fs.readFileSync(0, "utf8"));
const read = copies.map((table, i) => readCopy("copy", table, inputs, regions[i]));
const found = read.map((copy) => records.map((places) => [copy.region(places), copy.scores(places)]));
process.stdout.write(JSON.stringify(found));
