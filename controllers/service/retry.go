package service

import (
	"context"
	"time"

	"github.com/volumekit/volumekit/util/ctxend"
)

// Pauses between the attempts of Retry, and the time limit of an attempt.
const (
	firstPause  = time.Second
	mostPause   = 30 * time.Second
	attemptTime = 30 * time.Second
)

// Retry calls attempt until it succeeds, and returns the result. Each attempt has 30 seconds; the pauses
// grow from one second to 30 seconds. After a failure, Retry calls failed, and returns the error if failed
// returns false. If ctx ends first, Retry returns the cause of ctx.
func Retry[T any](ctx context.Context, attempt func(context.Context) (T, error), failed func(error) (again bool)) (result T, err error) {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		limited, cancel := context.WithTimeout(ctx, attemptTime)
		result, err = attempt(limited)
		cancel()
		switch {
		case err == nil:
			return result, nil
		case ctx.Err() != nil:
			return result, context.Cause(ctx)
		case !failed(err):
			return result, err
		}
		if ctxend.Sleep(ctx, pause) != nil {
			return result, context.Cause(ctx)
		}
	}
}
