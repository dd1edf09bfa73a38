package main

import (
	"time"

	"github.com/wfhost/wfhost/guests/go/wf"
)

type process struct {
	Entry     string `json:"entry"`
	Input     any    `json:"input"`
	Component string `json:"component"`
}

func child(ctx wf.Ctx, input process) (any, error) {
	return wf.Spawn[any](ctx, input.Entry, input.Input, wf.Component(input.Component)).Wait()
}

func children(ctx wf.Ctx, input struct{ N int }) ([]int, error) {
	all := make([]*wf.Future[int], input.N)
	for i := range all {
		all[i] = &wf.Spawn[int](ctx, "twice", i+1).Future
	}
	return wf.All(all...)
}

func fib(ctx wf.Ctx, n int) (int, error) {
	if n < 2 {
		return n, nil
	}
	both, err := wf.All(&wf.Spawn[int](ctx, "fib", n-1).Future, &wf.Spawn[int](ctx, "fib", n-2).Future)
	if err != nil {
		return 0, err
	}
	return both[0] + both[1], nil
}

func stop(ctx wf.Ctx, input process) (any, error) {
	wf.Check(ctx.Register("parent"))
	child := wf.Spawn[any](ctx, input.Entry, nil)
	wf.Receive[any](ctx, wf.Topic("ready"), wf.From(child.Sender())).Must()
	child.Stop()
	output, err := child.Wait()
	if err != nil {
		return object{"problem": wf.KindOf(err)}, nil
	}
	return object{"output": output}, nil
}

// hangs says that it is ready, and calls a handler that never answers until it is cancelled.
func hangs(ctx wf.Ctx, name string) error {
	if _, err := wf.Send(ctx, wf.Named("parent"), "ready", nil); err != nil {
		return err
	}
	_, err := wf.Call[any](ctx, "hang", name).Wait()
	return err
}

func cleanup(ctx wf.Ctx) error {
	err := hangs(ctx, "cleanup")
	wf.Call[any](ctx.WithoutCancel(), "note", "cleanup").Must()
	return err
}

func stubborn(ctx wf.Ctx) (string, error) {
	hangs(ctx, "stubborn")
	return "completed anyway", nil
}

func deaf(ctx wf.Ctx) error {
	hangs(ctx, "deaf")
	ctx = ctx.WithoutCancel()
	wf.Call[any](ctx, "note", "deaf").Must()
	return ctx.Sleep(time.Hour)
}

func waits(ctx wf.Ctx) (any, error) { return wf.Call[any](ctx, "hang", "waits").Wait() }

type detached struct {
	Detached bool `json:"detached"`
}

func outlive(ctx wf.Ctx, input detached) (any, error) {
	output, err := wf.Spawn[any](ctx, "leaves", input).Wait()
	if err != nil {
		return nil, err
	}
	_, err = wf.Signal[any](ctx, "go", 0).Wait()
	return output, err
}

func leaves(ctx wf.Ctx, input detached) (string, error) {
	if input.Detached {
		wf.Spawn[any](ctx, "late", nil, wf.Detached())
	} else {
		wf.Spawn[any](ctx, "late", nil)
	}
	return "left", ctx.Sleep(50 * time.Millisecond)
}

func late(ctx wf.Ctx) error {
	if _, err := wf.Call[any](ctx, "delay", object{"ms": 200, "value": nil}).Wait(); err != nil {
		return err
	}
	_, err := wf.Call[any](ctx, "note", "late").Wait()
	return err
}

func linked(ctx wf.Ctx) (any, error) {
	wf.Spawn[any](ctx, "own", nil, wf.Linked())
	return wf.Call[any](ctx, "hang", "linked").Wait()
}

func monitor(ctx wf.Ctx, input process) (any, error) {
	child := wf.Spawn[any](ctx, input.Entry, input.Input)
	exit, err := ctx.Monitor(child.Target()).Wait()
	switch exit.Ending {
	case wf.Failed:
		return object{"ending": "failed", "kind": exit.Problem.Kind}, err
	case wf.Cancelled:
		return object{"ending": "cancelled"}, err
	}
	return object{"ending": "completed"}, err
}

func deadline(ctx wf.Ctx, input duration) (string, error) {
	inner, done := ctx.WithTimeout(input.of())
	defer done()
	_, ended := wf.Spawn[any](inner, "waits", nil).Wait()
	_, err := wf.Signal[any](ctx, "go", 0).Wait()
	if wf.KindOf(ended) == "timeout" {
		return "timed out", err
	}
	return "ended", err
}
