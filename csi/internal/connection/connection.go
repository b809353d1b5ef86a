package connection

import (
	"path/filepath"
	"strings"
	"sync"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/keylock"
	"google.golang.org/grpc"
)

const (
	// Timeout is the longest duration of a call.
	Timeout = 2 * time.Minute
	// MaxMessage is the largest size of a request or an answer in bytes.
	MaxMessage = 4 << 20
	// MaxEndpoint is the largest length of an endpoint in bytes: the size of sun_path in the address
	// of a Unix socket, without the final NUL.
	MaxEndpoint = 107
)

// Config is the configuration of a [Connection].
type Config struct {
	Endpoint string        // required without Conn: absolute path of the driver's socket
	Driver   string        // name of the driver for errors; "" means the endpoint
	Timeout  time.Duration // longest duration of a call; 0 means [Timeout]
	// Conn is a connection to a driver in the same process. Nil: the driver is at Endpoint. A call of
	// Conn that outlives its context is left behind, with an unknown outcome.
	Conn grpc.ClientConnInterface
}

// A Connection calls the driver at one endpoint. It connects with the first call, and again with the
// first call after the driver has closed the connection, as by a restart: no backoff delays that
// call. All methods are safe for concurrent use.
type Connection struct {
	config  Config
	dialing keylock.Map // locked, for "", by the call that connects

	mu      sync.Mutex // guards the fields below, and those of sessions that say so
	current *session   // nil before the first call, and after a loss
	closed  bool
}

// Dial returns a connection to the driver at an endpoint: [Open] with this endpoint and defaults.
func Dial(endpoint string) (*Connection, error) { return Open(Config{Endpoint: endpoint}) }

// Open returns a connection to a driver. It does not connect yet: the driver need not run. The error
// is an [*input.Error] for an endpoint that is not the absolute path of a socket: see [CheckEndpoint].
func Open(config Config) (*Connection, error) {
	if reason := CheckEndpoint(config.Endpoint); reason != "" && config.Conn == nil {
		return nil, input.Operation("csi").Refuse("endpoint", config.Endpoint, reason)
	}
	if config.Driver == "" {
		config.Driver = config.Endpoint
	}
	if config.Timeout == 0 {
		config.Timeout = Timeout
	}
	return &Connection{config: config}, nil
}

// CheckEndpoint returns why a text is invalid as the path of a Unix socket, or "". It does not look
// at the file.
func CheckEndpoint(endpoint string) (reason string) {
	switch {
	case !filepath.IsAbs(endpoint):
		return "must be an absolute path"
	case strings.ContainsRune(endpoint, 0):
		return "must have no NUL"
	case len(endpoint) > MaxEndpoint:
		return "must have at most 107 bytes"
	}
	return ""
}

// Close ends the connection and the calls in flight. Later calls fail. A repeated Close has no effect.
// The error is always nil.
func (c *Connection) Close() error {
	c.mu.Lock()
	s := c.current
	c.current, c.closed = nil, true
	c.mu.Unlock()
	if s != nil {
		s.close()
	}
	return nil
}

// Identity returns the driver's service Identity.
func (c *Connection) Identity() csipb.IdentityClient { return csipb.NewIdentityClient(c) }

// Node returns the driver's service Node.
func (c *Connection) Node() csipb.NodeClient { return csipb.NewNodeClient(c) }

// Controller returns the driver's service Controller.
func (c *Connection) Controller() csipb.ControllerClient { return csipb.NewControllerClient(c) }
