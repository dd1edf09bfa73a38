// What the engine gives to this module alone: log, now, random, whoami, encode, decode, register.
export const host = globalThis.__host;
delete globalThis.__host;

// A line of the log is cut, before it takes memory and fuel: the host keeps 64 KiB a step.
const LOG_MAX = 64 << 10;
const { log } = host, { slice } = String.prototype, { apply } = Reflect;
host.log = (level, text, fields) => log(level, text.length > LOG_MAX ? `${apply(slice, text, [0, LOG_MAX])}…` : text, fields);
