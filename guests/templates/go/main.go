// A step of a workflow: `run` is its entry.
package main

import (
	"time"

	"github.com/wfhost/wfhost/guests/go/wf"
)

type Input struct {
	Name string `json:"name"`
}

type Output struct {
	Greeting string `json:"greeting"`
}

func run(ctx wf.Ctx, input Input) (Output, error) {
	if input.Name == "" {
		return Output{}, &wf.Problem{Kind: "no-name", Title: "There is nobody to greet"}
	}
	if err := ctx.Sleep(10 * time.Millisecond); err != nil {
		return Output{}, err
	}
	return Output{Greeting: "Hello, " + input.Name + "!"}, nil
}

func main() {
	wf.Export(wf.Entries{"run": wf.Doc("Greets somebody after a moment.", run)}, "Greets.")
}
