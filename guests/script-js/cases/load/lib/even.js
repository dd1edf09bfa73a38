import { odd } from "../circular.js";
export const even = (n) => n === 0 || odd(n - 1);
