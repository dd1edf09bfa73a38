package main

import (
	"encoding/json"
	"testing"

	"github.com/wfhost/wfhost/guests/go/wftest"
)

func TestOrder(t *testing.T) {
	main() // exports the entries
	host := wftest.New(t)
	host.Handle("price", func(json.RawMessage) (any, error) { return 20, nil })
	host.Signal("approve", map[string]string{"by": "Ann"})
	type out struct {
		Total int
		By    string
	}
	output, err := wftest.Run[out](host, "run", map[string]any{"ids": []int{1, 2}})
	if err != nil || output != (out{40, "Ann"}) || host.Lines[0].Text != "total is 40" {
		t.Error(output, err, host.Lines)
	}
}
