package driver

import (
	"context"
	"fmt"
	"net"
	"path"
	"strings"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/socketfile"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Listen returns a listener for Serve at a Unix socket, "/csi/csi.sock" or "unix:///csi/csi.sock", that
// only this user may connect to, from its first moment. It removes the socket of an earlier process, and fails if that
// process still serves, or if the path is another file. The error of an invalid endpoint is a *field.Error. It
// returns soon after ctx ends.
//
// If the socket is removed before Close, such as with its directory, the listener soon puts a new one in its place: after
// 100 ms, or up to 10 seconds after the directory exists again. It leaves what another process puts there.
func Listen(ctx context.Context, endpoint string) (_ net.Listener, err error) {
	defer brief.Shorten(&err)
	socket, err := socketOf(endpoint)
	if err != nil {
		return nil, err
	}
	listener, err := socketfile.ListenAlone(ctx, socket)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", socket, err)
	}
	return listener, nil
}

// socketOf returns the path in an endpoint.
func socketOf(endpoint string) (string, error) {
	socket, isURL := strings.CutPrefix(endpoint, "unix://")
	if !isURL {
		socket = strings.TrimPrefix(endpoint, "unix:")
	}
	if problem := socketfile.Problem(socket); problem != "" {
		return "", volume.Invalid(field.NewPath("endpoint"), endpoint, problem)
	}
	return path.Clean(socket), nil
}
