package nfs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/volumekit/volumekit/mount/internal/spec"
	"github.com/volumekit/volumekit/util/ctxend"
)

// Mount calls mount with each address and version of a spec, until one succeeds.
func Mount[T any](ctx context.Context, s *spec.Spec, mount func(*spec.Spec) (T, error)) (mounted T, err error) {
	host, err := hostOf(s.Source)
	if err != nil {
		return mounted, err
	}
	servers, err := resolveHost(ctx, host)
	if err != nil {
		return mounted, err
	}
	var failed []error
	for i, server := range servers {
		err := checkReachable(ctx, server, len(servers)-i, s.Options)
		if err == nil {
			if mounted, err = mountFrom(ctx, server, s, mount); err == nil {
				return mounted, nil
			}
		}
		failed = append(failed, fmt.Errorf("server %s: %w", server, err))
		if ctx.Err() != nil {
			break
		}
	}
	return mounted, errors.Join(failed...)
}

// mountFrom calls mount with each version, for one address. An error about the version or
// about an unknown option leads to the next version.
func mountFrom[T any](ctx context.Context, server netip.Addr, s *spec.Spec, mount func(*spec.Spec) (T, error)) (mounted T, err error) {
	client := clientFor(server)
	attempt := *s
	attempt.FSType = "nfs" // the other types are versions of it
	var rejected error
	for _, version := range versionsFor(s.Options) {
		if ctx.Err() != nil {
			return mounted, ctxend.Error(ctx)
		}
		attempt.Options = withAddresses(s.Options, version, server, client)
		mounted, err = mount(&attempt)
		switch {
		case errors.Is(err, syscall.EPROTONOSUPPORT):
			rejected = err
		case !errors.Is(err, syscall.EINVAL):
			return mounted, err
		case rejected == nil: // the client, or another option, may be too old for the version
			rejected = err
		}
	}
	return mounted, rejected
}
