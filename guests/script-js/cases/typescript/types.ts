export interface Line { price: number }
export interface Order { id: number; lines: Line[] }
export type Currency = "eur" | "usd";
export class Unused {}
export const rate = (c: Currency): number => (c === "eur" ? 1.25 : 1);
