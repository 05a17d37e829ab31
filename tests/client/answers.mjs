// What the JavaScript client answers: node answers.mjs MODULE < asked.json > answered.json
//
// asked: {"policies": [text], "vectors": [{"policy", "record" (JSON), "words"}], "hostile": [[policy, source]]}
// answered: {"policies": ["read" or why not], "vectors": [released, or {"refused": why}], "hostile": [...], "fresh", "keys"}
import fs from "node:fs";
const { Client, NotPrivate } = await import(process.argv[2]);
const asked = JSON.parse(fs.readFileSync(0, "utf8"));
const attempt = (what) => {
  try {
    return what();
  } catch (error) {
    return { refused: error.message };
  }
};
const clients = asked.policies.map((text) => attempt(() => new Client(text)));
const vectors = asked.vectors.map(({ policy, record, words }) =>
  attempt(() => {
    const found = clients[policy].replay(record, words.map(BigInt));
    if (!(found instanceof NotPrivate) || found.private) throw new Error("not marked");
    return { released: { ...found } };
  }),
);
const hostile = asked.hostile.map(([policy, source]) =>
  attempt(() => ({ released: clients[policy].perturb((0, eval)(`(${source})`)) })),
);
const fresh = asked.fresh.map(([policy, record, draws]) =>
  attempt(() => Array.from({ length: draws }, () => clients[policy].perturb(record))),
);
const policies = clients.map((client) => (client instanceof Client ? { read: client.fingerprint } : client));
process.stdout.write(JSON.stringify({ policies, vectors, hostile, fresh }));
