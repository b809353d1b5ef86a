// Fetchkernels fetches the kernels that tests run on, unless they are there:
//
//	fetchkernels 6.1 6.12
//
// See package kernels for the names, and for the place where they are kept.
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
		k, err := try(ctx, name)
		if err != nil && ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "fetchkernels: %v\nonce more in %v\n", err, pause)
			k, err = again(ctx, name)
		}
		if err != nil {
			return fmt.Errorf("no Linux %s to test on, it could not be had from Debian: %w", name, err)
		}
		fmt.Printf("kernel %s is in %s\n", name, k.Dir)
	}
	return nil
}

// pause is what a mirror or a network gets to recover.
const pause = 15 * time.Second

func again(ctx context.Context, name string) (kernels.Kernel, error) {
	select {
	case <-ctx.Done():
		return kernels.Kernel{}, ctx.Err()
	case <-time.After(pause):
		return try(ctx, name)
	}
}

func try(ctx context.Context, name string) (kernels.Kernel, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return kernels.Fetch(ctx, name)
}
