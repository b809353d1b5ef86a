package podvolume

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/internal/intime"
	"github.com/volumekit/volumekit/util/keylock"
)

// runExclusively runs work like [intime.Run]. It holds the lock of dir until work ends, also if it
// returns earlier because ctx has ended. Its error is short.
func runExclusively(ctx context.Context, locks *keylock.Map, dir string, kind error, work func(ctx context.Context) error) (err error) {
	defer brief.Shorten(&err)
	unlock, err := lockPath(ctx, locks, dir)
	if err != nil {
		return err
	}
	return intime.Run(ctx, kind, func(ctx context.Context) error {
		defer unlock()
		return work(ctx)
	})
}

func lockPath(ctx context.Context, locks *keylock.Map, dir string) (unlock func(), err error) {
	unlock, err = locks.Lock(ctx, dir)
	if err != nil {
		return nil, util.Transient(fmt.Errorf("waiting for another operation on %s: %w", dir, err))
	}
	return unlock, nil
}
