package main

import (
	"testing"

	"github.com/wfhost/wfhost/guests/go/wf"
	"github.com/wfhost/wfhost/guests/go/wftest"
)

func TestGreeting(t *testing.T) {
	main() // exports the entries
	output, err := wftest.Run[Output](wftest.New(t), "run", Input{Name: "Ann"})
	if err != nil || output.Greeting != "Hello, Ann!" {
		t.Fatal(output, err)
	}
}

func TestANameIsNeeded(t *testing.T) {
	main()
	if _, err := wftest.Run[Output](wftest.New(t), "run", Input{}); wf.KindOf(err) != "no-name" {
		t.Fatal(err)
	}
}
