// Fetchdocker downloads the programs of package dockerserver into the cache if it lacks them.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/volumekit/volumekit/internal/dockerserver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if _, err := dockerserver.Fetch(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fetchdocker:", err)
		os.Exit(1)
	}
}
