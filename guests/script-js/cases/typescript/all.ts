import type { Order, Line } from "./types.ts";
import { rate, type Currency } from "./types.ts";
import { Unused } from "./types.ts";

enum Color { Red, Green = 5, Blue }
const enum Level { Low = "low", High = "high" }
declare const nowhere: number;
interface Shape { area(): number }
type Pair<A, B = A> = [A, B];
abstract class Base<T> { constructor(protected readonly value: T, public name?: string) {} abstract get(): T }
class Box<T extends number> extends Base<T> implements Shape {
  private static count: number = 0;
  declare ghost: string;
  override get(): T { return this.value; }
  area(): number { Box.count++; return (this.value as number) * 2; }
}
function first<T>(all: readonly T[], ...rest: T[]): T | undefined { return all[0] ?? rest[0]; }
function overloaded(a: string): string;
function overloaded(a: number): number;
function overloaded(a: any) { return a; }
namespace Space { export const inside = 7; }
export async function run(this: void, ctx: unknown, input?: { ids: number[] }): Promise<unknown> {
  const order = { id: 1, lines: [] as Line[] } satisfies Order;
  const pair: Pair<number> = [1, 2];
  const box = new Box<number>(21, "box");
  const sure = input!?.ids;
  let x = <number>(5 as unknown);
  for (const c of [Color.Red, Color.Blue] as const) x += c;
  return [order.id, pair[1], box.area(), box.name, first<number>([], 9), Level.High, Color[5], x, rate("eur" as Currency), sure, overloaded(3)];
}
