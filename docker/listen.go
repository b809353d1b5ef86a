package docker

import (
	"context"
	"fmt"
	"net"
	"path"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/socketfile"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// SocketDir is where a daemon looks for the socket NAME.sock of the driver NAME.
const SocketDir = "/run/docker/plugins"

// Listen returns a listener for Serve at a Unix socket, such as "/run/docker/plugins/nfs.sock", that only this user
// may connect to, from its first moment. It removes the socket of an earlier process, and fails if that
// process still serves, or if the path is another file. Its directory must exist. The error of an invalid path is a
// *field.Error. It returns soon after ctx ends.
//
// If the socket is removed before Close, such as with its directory, the listener soon puts a new one in its place: after
// 100 ms, or up to 10 seconds after the directory exists again. It leaves what another process puts there.
func Listen(ctx context.Context, socket string) (_ net.Listener, err error) {
	defer brief.Shorten(&err)
	if problem := socketfile.Problem(socket); problem != "" {
		return nil, volume.Invalid(field.NewPath("socket"), socket, problem)
	}
	listener, err := socketfile.ListenAlone(ctx, path.Clean(socket))
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", socket, err)
	}
	return listener, nil
}
