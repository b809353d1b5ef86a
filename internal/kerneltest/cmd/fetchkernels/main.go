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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for _, name := range names {
		k, err := kernels.Fetch(ctx, name)
		if err != nil {
			return err
		}
		fmt.Printf("kernel %s is in %s\n", name, k.Dir)
	}
	return nil
}
