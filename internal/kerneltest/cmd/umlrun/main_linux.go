// Umlrun runs a test binary in a kernel that is an ordinary program. It is for
//
//	CGO_ENABLED=0 go test -exec "$PWD/bin/umlrun -kernel 6.1" ./mount
//
// and exits with the test's exit code, or 125 if the test could not be run. It is also the
// first program in that kernel, so it has to be built with CGO_ENABLED=0 itself. The kernel
// must be in the cache: see fetchkernels.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/internal/kerneltest/boot"
	"github.com/volumekit/volumekit/internal/kerneltest/guest"
	"github.com/volumekit/volumekit/internal/kerneltest/kernels"
)

func main() {
	if os.Getpid() == 1 {
		guest.Main()
	}
	kernel := flag.String("kernel", "6.1", "name of the kernel")
	memory := flag.String("memory", "", "size of its memory (default 512M)")
	parameters := flag.String("parameters", "", "more parameters of the kernel, with blanks between")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: umlrun [-kernel NAME] [-memory SIZE] [-parameters LIST] TEST [ARGUMENT]...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	code, err := run(*kernel, boot.Test{Program: flag.Arg(0), Args: flag.Args()[1:], Memory: *memory, Parameters: strings.Fields(*parameters), Output: os.Stdout})
	if err != nil {
		fmt.Fprintf(os.Stderr, "umlrun: kernel %s: %v\n", *kernel, err)
	}
	os.Exit(code)
}

func run(kernel string, test boot.Test) (code int, err error) {
	test.Kernel, err = kernels.Find(kernel)
	if err != nil {
		return guest.Failed, err
	}
	// A closed output must not kill this process: it would leave the kernel behind.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	defer stop()
	return boot.Run(ctx, test)
}
