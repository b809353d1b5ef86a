// Fetchkernels downloads the kernels for tests, and programs of Debian's, into the cache if
// it lacks them:
//
//	fetchkernels 6.1 6.12 mount.nfs
//
// See package kernels for the names, and for the cache.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/internal/kerneltest/kernels"
)

func main() {
	if err := fetch(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fetchkernels:", err)
		os.Exit(1)
	}
}

func fetch(names []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, name := range names {
		err := fetchOnce(ctx, name)
		if err != nil && ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "fetchkernels: %v\nonce more in %v\n", err, pause)
			err = fetchWithRetry(ctx, name)
		}
		if err != nil {
			return fmt.Errorf("no %s to test with, it could not be had from Debian: %w", name, err)
		}
		fmt.Printf("%s is there\n", name)
	}
	return nil
}

// pause is the time before a retry, for a mirror or a network to recover.
const pause = 15 * time.Second

func fetchWithRetry(ctx context.Context, name string) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return fetchOnce(ctx, name)
	}
}

func fetchOnce(ctx context.Context, name string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if name == kernels.MountNFS {
		_, err = kernels.FetchMountNFS(ctx)
	} else {
		_, err = kernels.Fetch(ctx, name)
	}
	return err
}
