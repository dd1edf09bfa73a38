//! A step of a workflow: `run` is its entry.

const std = @import("std");
const wf = @import("wfhost");
pub const panic = wf.panic;

const Input = struct { name: []const u8 };
const Output = struct { greeting: []const u8 };

pub fn run(ctx: *wf.Ctx, input: Input) !Output {
    if (input.name.len == 0) return ctx.fail(.{ .kind = "no-name", .title = "There is nobody to greet" });
    try ctx.sleep(wf.ms(10));
    return .{ .greeting = try std.fmt.allocPrint(ctx.arena, "Hello, {s}!", .{input.name}) };
}

comptime {
    wf.exports(.{ .run = run }, "Greets.");
}
