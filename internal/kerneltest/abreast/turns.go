package abreast

import (
	"bytes"
	"io"
	"sync"
)

// A turns lets one speak at a time, in their order, and keeps what the others say
// until it is their turn.
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
	t.say()
}

// end passes the turn on.
func (t *turns) end(i int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended[i] = true
	for t.turn < len(t.ended) && t.ended[t.turn] {
		t.turn++
		t.say()
	}
}

// say writes what is kept of the one whose turn it is. If nobody listens any more,
// the commands still run to their end.
func (t *turns) say() {
	if t.turn < len(t.kept) {
		_, _ = t.kept[t.turn].WriteTo(t.out)
	}
}

// A turn is one's place in turns.
type turn struct {
	*turns
	i int
}

func (t turn) Write(text []byte) (int, error) {
	t.write(t.i, text)
	return len(text), nil
}
