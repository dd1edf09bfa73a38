package main

import "github.com/wfhost/wfhost/guests/go/wf"

func total(_ wf.Ctx, prices []int) (sum int, _ error) {
	for _, price := range prices {
		sum += price
	}
	return sum, nil
}
func run(ctx wf.Ctx, order struct{ IDs []int }) (any, error) {
	prices := wf.Must(wf.Map(ctx, 0, order.IDs, func(ctx wf.Ctx, id int) (int, error) {
		return wf.Call[int](ctx, "price", map[string]int{"id": id}).Wait()
	}))
	wf.Check(ctx.Sleep(10 * wf.Millisecond))
	sum := wf.Spawn[int](ctx, "total", prices).Must()
	ctx.Logf(wf.Info, "total is %d", sum)
	return map[string]any{"total": sum, "by": wf.Signal[struct{ By string }](ctx, "approve", 0).Must().By}, nil
}
func main() { wf.Export(wf.Entries{"run": run, "total": total}) }
