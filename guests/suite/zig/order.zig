const wf = @import("wfhost");
fn price(ctx: *wf.Ctx, id: u64) !u64 {
    return ctx.call(u64, "price", .{ .id = id }, .{}).wait();
}
fn run(ctx: *wf.Ctx, order: struct { ids: []const u64 }) !struct { total: u64, by: []const u8 } {
    const prices = try ctx.map(u64, 0, order.ids, price);
    try ctx.sleep(wf.ms(10));
    const sum = try ctx.spawn(u64, "total", prices, .{}).wait();
    ctx.log(.info, "total is {d}", .{sum});
    const approval = try ctx.signal(struct { by: []const u8 }, "approve", .{}).wait();
    return .{ .total = sum, .by = approval.by };
}
fn total(_: *wf.Ctx, prices: []const u64) !u64 {
    var sum: u64 = 0;
    for (prices) |one| sum += one;
    return sum;
}
comptime {
    wf.exports(.{ .run = run, .total = total }, "Orders.");
}
