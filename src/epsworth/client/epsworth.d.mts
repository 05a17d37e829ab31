// The types of epsworth.mjs.

/** What a record may hold; a policy says which of its columns are perturbed and which pass. */
export type Value = number | string | boolean | null | undefined;
export type Given = Readonly<Record<string, Value>>;
export type Released = Record<string, number | string | boolean | null>;

/**
 * What was refused.
 * - `policy`: the text of the policy was edited, is cut, or needs a newer client
 * - `record`: the record is no object
 * - `unknown`: it has a member that the policy does not name
 * - `lacking`: it lacks a member that the policy needs
 * - `missing`: a value is missing, and the policy has none for it
 * - `undeclared`: a category is not declared, and the policy has none for it
 * - `value`: a value is of another kind than the policy takes
 * - `words`: the words of a replay are too few, or none
 */
export type Code =
  | "policy" | "record" | "unknown" | "lacking" | "missing" | "undeclared" | "value" | "words";

/** The message is for people, and never shows a value. */
export class Refusal extends Error {
  readonly name: "Refusal";
  readonly code: Code;
}

/** A record that was drawn with words somebody knows: NOT PRIVATE, for tests alone. */
export class NotPrivate {
  readonly private: false;
  [name: string]: Value;
}

/** A policy that a device runs by itself. */
export class Client {
  /** @param policy the text of policy.json */
  constructor(policy: string);
  readonly fingerprint: string;
  /** How many words of 64 bits a record takes. */
  readonly words: number;
  /** Perturb one record; each call releases it once more, and epsilons add. */
  perturb(record: Given): Released;
  /** Draw with these words: NOT PRIVATE, for tests alone. */
  replay(record: Given, words: Iterable<bigint>): NotPrivate;
}

/** The SHA-256 of an ASCII text, in hexadecimal digits. */
export function sha256(text: string): string;

