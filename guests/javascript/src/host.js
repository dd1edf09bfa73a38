// What the engine gives to this module alone: log, now, random, whoami, encode, decode, register.
export const host = globalThis.__host;
delete globalThis.__host;
