package workers_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/volumekit/volumekit/controllers/internal/workers"
)

// A controller feeds the changes of its caches to a pool, and handles one key at a time.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	pool, err := workers.New(workers.Config[string]{
		Name:   "example",
		Logger: slog.New(slog.DiscardHandler),
		Handle: func(_ context.Context, key string) (workers.Result, error) {
			fmt.Println("handle", key)
			cancel() // a controller goes on until its program ends
			return workers.Result{After: time.Minute}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	pool.Add("ns/claim")
	fmt.Println(pool.Run(ctx))
	// Output:
	// handle ns/claim
	// <nil>
}
