package abreast

import (
	"bytes"
	"io"
	"sync"
)

// A turns prints one output at a time, in order, and keeps the output of the others until
// their turn.
type turns struct {
	mu    sync.Mutex
	out   io.Writer
	kept  []bytes.Buffer
	ended []bool
	turn  int
}

func newTurns(out io.Writer, n int) *turns {
	return &turns{out: out, kept: make([]bytes.Buffer, n), ended: make([]bool, n)}
}

func (t *turns) write(i int, text []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept[i].Write(text)
	t.printTurn()
}

// end gives the turn to the next output.
func (t *turns) end(i int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended[i] = true
	for t.turn < len(t.ended) && t.ended[t.turn] {
		t.turn++
		t.printTurn()
	}
}

// printTurn prints the kept output of the current turn. After a failed write the commands still
// run to their end.
func (t *turns) printTurn() {
	if t.turn < len(t.kept) {
		_, _ = t.kept[t.turn].WriteTo(t.out)
	}
}

// A turn is one output's writer.
type turn struct {
	*turns
	i int
}

func (t turn) Write(text []byte) (int, error) {
	t.write(t.i, text)
	return len(text), nil
}
