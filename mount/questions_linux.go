package mount

import (
	"sync"
	"time"
)

// questions are what file systems have been asked and have not answered: at most
// one for each mount, whoever asks.
type questions struct {
	mu   sync.Mutex
	open map[mountID]*question
}

// A question is whether a file system answers.
type question struct {
	since    time.Time
	child    *child        // it asks
	answered chan struct{} // closed with the answer
	answer   error
}

// about returns the open question about a mount, or poses it.
func (q *questions) about(mount mountID, pose func() (*child, error)) (*question, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if open, ok := q.open[mount]; ok {
		return open, nil
	}
	c, err := pose()
	if err != nil {
		return nil, err
	}
	asked := &question{since: time.Now(), child: c, answered: make(chan struct{})}
	if q.open == nil {
		q.open = map[mountID]*question{}
	}
	q.open[mount] = asked
	go q.await(mount, asked)
	return asked, nil
}

func (q *questions) await(mount mountID, asked *question) {
	asked.answer = asked.child.answer()
	q.mu.Lock()
	delete(q.open, mount)
	q.mu.Unlock()
	close(asked.answered)
}
