package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/redaction"
	"github.com/volumekit/volumekit/util/ctxend"
)

// Times after which calls end: the daemon waits for two minutes for Create and Mount, and for one for others.
const (
	createTime = 110 * time.Second
	mountTime  = 110 * time.Second
	shortTime  = 50 * time.Second
)

const (
	maxBody     = 1 << 20 // bytes
	maxHeader   = 16 << 10
	idleTime    = 5 * time.Minute // for a connection without requests
	contentType = "application/vnd.docker.plugins.v1.2+json"
)

var bodyTime = 10 * time.Second // for a request to arrive; tests shorten it

// A request is that of any call.
type request struct {
	Name string
	ID   string
	Opts map[string]string
}

// A response is that of any call.
type response struct {
	Implements   []string      `json:",omitempty"`
	Mountpoint   string        `json:",omitempty"`
	Volume       *volumeInfo   `json:",omitempty"`
	Volumes      []volumeInfo  `json:",omitempty"`
	Capabilities *capabilities `json:",omitempty"`
	Err          string
}

// A volumeInfo describes a volume to the daemon.
type volumeInfo struct {
	Name       string
	Mountpoint string         `json:",omitempty"`
	CreatedAt  string         `json:",omitempty"`
	Status     map[string]any `json:",omitempty"`
}

type capabilities struct{ Scope Scope }

// A call is one of the protocol's.
type call struct {
	limit time.Duration
	run   func(ctx context.Context, q request) (response, error)
}

// handler returns the handler of all calls.
func (d *driver) handler() http.Handler {
	mux := http.NewServeMux()
	for name, c := range map[string]call{
		"/Plugin.Activate":           {shortTime, d.activate},
		"/VolumeDriver.Capabilities": {shortTime, d.capabilities},
		"/VolumeDriver.Create":       {createTime, d.create},
		"/VolumeDriver.Remove":       {shortTime, d.remove},
		"/VolumeDriver.Mount":        {mountTime, d.mount},
		"/VolumeDriver.Unmount":      {shortTime, d.unmount},
		"/VolumeDriver.Path":         {shortTime, d.pathOf},
		"/VolumeDriver.Get":          {shortTime, d.get},
		"/VolumeDriver.List":         {shortTime, d.list},
	} {
		mux.HandleFunc("POST "+name, func(w http.ResponseWriter, r *http.Request) { d.serveCall(w, r, c) })
	}
	return mux
}

// serveCall answers a request. A failed call has the status 500 and a text.
func (d *driver) serveCall(w http.ResponseWriter, r *http.Request, c call) {
	if !d.beginCall() {
		http.Error(w, `{"Err": "the driver ends"}`, http.StatusServiceUnavailable)
		return
	}
	defer d.calls.Done()
	status, answer := http.StatusOK, response{}
	q, err := readRequest(w, r)
	if err != nil {
		status = http.StatusBadRequest
	} else {
		ctx, cancel := context.WithTimeoutCause(r.Context(), c.limit, errTooLong)
		defer cancel()
		err = d.guarded(record{Name: q.Name, Options: q.Opts}, func() error { answer, err = c.run(ctx, q); return err })
		if err != nil {
			status = http.StatusInternalServerError
		}
	}
	if err != nil {
		secrets := d.secrets(record{Options: q.Opts})
		if of := (*volumeError)(nil); errors.As(err, &of) {
			secrets = append(secrets, of.secrets...)
		}
		answer = response{Err: redaction.Message(brief.Of(err).Error(), secrets)}
		level := slog.LevelWarn
		if errors.Is(err, errNoVolume) { // the daemon queries all drivers for a name
			level = slog.LevelDebug
		}
		d.config.Logger.Log(r.Context(), level, "call failed", "call", r.URL.Path, "volume", brief.Name(q.Name), "error", answer.Err)
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the caller has gone
}

var errTooLong = errors.New("the call took too long")

// readRequest reads the body of a request, which may be empty.
func readRequest(w http.ResponseWriter, r *http.Request) (q request, err error) {
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(bodyTime)) // not of each ResponseWriter
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		_ = connection.SetReadDeadline(time.Time{}) // after an error the rest is not awaited either
	}
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, &q)
	}
	if err == nil {
		err = q.checkSize()
	}
	if err != nil {
		return request{}, fmt.Errorf("the request: %w", err)
	}
	return q, nil
}

// checkSize refuses options that are too many or too long, without their texts: a search for secrets in them would take
// long.
func (q request) checkSize() error {
	if len(q.Opts) > mostOptions {
		return fmt.Errorf("options: %d, must be at most %d", len(q.Opts), mostOptions)
	}
	for key, value := range q.Opts {
		if len(key) > longestKey || len(value) > longestValue {
			return fmt.Errorf("options: a key of %d bytes with a value of %d: must be at most %d and %d", len(key), len(value), longestKey, longestValue)
		}
	}
	return nil
}

// secrets returns the secrets in the options and the parameters of a volume, and in those of the configuration.
func (d *driver) secrets(rec record) (secrets []string) {
	for _, options := range []map[string]string{rec.Options, rec.Parameters, d.config.Parameters} {
		for key, value := range options {
			switch {
			case redaction.IsSensitive(key):
				secrets = append(secrets, value)
			case key == optionMount:
				secrets = append(secrets, redaction.OptionSecrets(value)...)
			}
		}
	}
	return secrets
}

// guarded runs work on a volume. A panic of the plugin is an error.
func (d *driver) guarded(rec record, work func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			have, _, _, _ := d.store.get(rec.Name)
			secrets := append(d.secrets(rec), d.secrets(have)...)
			d.config.Logger.Error("panic", "value", redaction.Message(fmt.Sprint(r), secrets), "stack", redaction.Parts(string(debug.Stack()), secrets))
			err = errors.New("the driver has a defect: its log has the stack")
		}
	}()
	return work()
}

// A volumeError is an error of a call for a volume, whose record may be gone.
type volumeError struct {
	name    string
	err     error
	secrets []string // that its text may have
}

func (e *volumeError) Error() string { return "volume " + e.name + ": " + e.err.Error() }

func (e *volumeError) Unwrap() error { return e.err }

// exclusively runs work on a volume while no other call changes it.
func (d *driver) exclusively(ctx context.Context, name string, work func(have record, use usage, exists bool) error) error {
	if err := checkName(name); err != nil {
		return err
	}
	unlock, err := d.locks.Lock(ctx, name)
	if err != nil {
		return fmt.Errorf("volume %s: another call is in flight: %w", name, ctxend.Error(ctx))
	}
	defer unlock()
	have, use, exists, err := d.store.get(name)
	if err == nil {
		err = work(have, use, exists)
	}
	if err != nil {
		err = &volumeError{name, err, d.secrets(have)}
	}
	return err
}

// changing is exclusively for a call whose failure is shown in the volume's status.
func (d *driver) changing(ctx context.Context, q request, work func(have record, use usage, exists bool) error) error {
	return d.exclusively(ctx, q.Name, func(have record, use usage, exists bool) error {
		err := work(have, use, exists)
		switch {
		case err == nil:
			d.store.note(q.Name, "")
		case !errors.Is(err, errInUse):
			d.store.note(q.Name, redaction.Message(brief.Of(err).Error(), d.secrets(have)))
		}
		return err
	})
}

func (d *driver) activate(context.Context, request) (response, error) {
	return response{Implements: []string{"VolumeDriver"}}, nil
}

func (d *driver) capabilities(context.Context, request) (response, error) {
	return response{Capabilities: &capabilities{d.config.Scope}}, nil
}
