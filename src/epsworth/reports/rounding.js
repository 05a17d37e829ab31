// Rounding to the safe side, by the rule of epsworth.rounding: on the decimal digits that a double prints as,
// which are the same in Python and here. 0.4519 is promised as 0.451, never as 0.452.

"use strict";

/** Return the sign, the digits and the exponent of the last digit that a finite number prints as. */
function decimalOf(value) {
  const [mantissa, power] = Math.abs(value).toExponential().split("e");
  const digits = mantissa.replace(".", "");
  return { negative: value < 0, digits: BigInt(digits), first: Number(power), last: Number(power) - digits.length + 1 };
}

/** Return how many units of 10^last a number is, as a whole number: not below it (up), or not above it. */
function unitsOf(value, last, up) {
  const { negative, digits, last: own } = decimalOf(value);
  if (last <= own) {
    const whole = digits * 10n ** BigInt(own - last);
    return negative ? -whole : whole;
  }
  const unit = 10n ** BigInt(last - own);
  const away = digits % unit !== 0n && up !== negative ? 1n : 0n;
  const whole = digits / unit + away;
  return negative ? -whole : whole;
}

/** Round towards minus infinity: for all that is promised as at least. */
function roundDown(value, digits = 3) {
  return Number.isFinite(value) ? Number(`${unitsOf(value, -digits, false)}e${-digits}`) : value;
}

/** Round towards plus infinity: for all that is promised as at most. */
function roundUp(value, digits = 3) {
  return Number.isFinite(value) ? Number(`${unitsOf(value, -digits, true)}e${-digits}`) : value;
}

/** Print with at most so many significant digits, rounded up: for privacy losses. */
function showUp(value, significant = 6) {
  return shown(value, significant, true);
}

/** Print with at most so many significant digits, rounded down. */
function showDown(value, significant = 6) {
  return shown(value, significant, false);
}

function shown(value, significant, up) {
  if (!Number.isFinite(value) || value === 0) return value === 0 ? "0" : value > 0 ? "inf" : value < 0 ? "-inf" : "nan";
  let last = decimalOf(value).first - significant + 1;
  let units = unitsOf(value, last, up);
  const sign = units < 0n ? "-" : "";
  let text = String(units < 0n ? -units : units);
  if (text === "0") return "0";
  const zeros = text.length - text.replace(/0+$/, "").length; // drop what says nothing
  text = text.slice(0, text.length - zeros);
  last += zeros;
  const first = last + text.length - 1;
  if (first < -12 || first >= 16) {
    const rest = text.length > 1 ? `.${text.slice(1)}` : "";
    return `${sign}${text[0]}${rest}E${first < 0 ? "-" : "+"}${Math.abs(first)}`;
  }
  if (last >= 0) return sign + text + "0".repeat(last);
  const padded = text.padStart(1 - last, "0");
  return `${sign}${padded.slice(0, last)}.${padded.slice(last)}`;
}

/** Print a share in per cent, rounded up, to three digits; what is less than 100 % never reads so, but within a millionth. */
function shareUp(value) {
  if (value === 0) return "0\u00a0%";
  let last = Math.max(-4, Math.min(0, decimalOf(value).first)); // of per cent
  let units = unitsOf(value, last - 2, true);
  while (value < 1 && last > -4 && units >= 10n ** BigInt(2 - last)) units = unitsOf(value, --last - 2, true);
  const text = String(units).padStart(1 - last, "0"), cut = text.length + last;
  return `${last < 0 ? `${text.slice(0, cut)}.${text.slice(cut)}`.replace(/\.?0+$/, "") : text}\u00a0%`;
}

/** Print a share that is stored as a whole number of 10^-digits, in per cent. */
function percent(units, digits) {
  const text = String(units).padStart(digits - 1, "0");
  const cut = text.length - (digits - 2);
  return `${text.slice(0, cut)}.${text.slice(cut)}\u00a0%`;
}

/** Fill {names} of a text; what is filled in is not looked at again. */
function filled(text, words) {
  return text.replace(/\{(\w+)\}/g, (_, name) => words[name]);
}
