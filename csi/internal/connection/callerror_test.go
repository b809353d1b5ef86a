package connection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/redaction"
	"github.com/volumekit/volumekit/volume"
)

// texts returns all texts of an error and its causes, as a log prints them.
func texts(err error) string {
	var all strings.Builder
	var add func(error)
	add = func(err error) {
		encoded, _ := json.Marshal(err)
		fmt.Fprintf(&all, "%v\n%+v\n%#v\n%q\n%s\n%s\n", err, err, err, err, encoded, status.Convert(err).String())
		if wrapper, ok := err.(interface{ Unwrap() []error }); ok {
			for _, cause := range wrapper.Unwrap() {
				add(cause)
			}
		}
		if cause := errors.Unwrap(err); cause != nil {
			add(cause)
		}
	}
	add(err)
	return all.String()
}

// TestSecretsAreStripped: a secret that a driver repeats in an error is in no text of the error.
func TestSecretsAreStripped(t *testing.T) {
	requireNoLeak(t)
	const key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nAQEFAASCBKcwggSjAgEAAoIB\n-----END KEY-----\n"
	request := &csipb.NodeStageVolumeRequest{
		VolumeId: "volume-1",
		Secrets:  map[string]string{"password": `pa"ss wörd&`, "key": key, "empty": "", "blank": " ", "overlap": "ss wörd&more"},
		VolumeContext: map[string]string{
			"share": "public",
			"csi.storage.k8s.io/serviceAccount.tokens": `{"vault":{"token":"eyJhbGciOiJSUzI1NiJ9.e30.c2ln","expirationTimestamp":"2030-01-01T00:00:00Z"}}`,
		},
	}
	secrets := []string{`pa"ss`, "wörd", "MIIEvQIBADANBgkqhkiG9w0", "AQEFAASCBKcwggSjAgEAAoIB", "eyJhbGciOiJSUzI1NiJ9", "more"}
	endpoint := socketPath(t)
	var message string
	d := &testDriver{stage: func(context.Context, *csipb.NodeStageVolumeRequest) error {
		return status.Error(codes.PermissionDenied, message)
	}}
	d.serve(t, endpoint)
	c := dial(t, Config{Endpoint: endpoint, Driver: "d"})
	for name, test := range map[string]struct{ message, want string }{
		"plain":       {`login pa"ss wörd& failed`, "login ***stripped*** failed"},
		"twice":       {`pa"ss wörd&pa"ss wörd&, pa"ss wörd&`, "***stripped***, ***stripped***"},
		"overlapping": {`in pa"ss wörd&more`, "in ***stripped***"},
		"quoted":      {`login "pa\"ss wörd&" failed`, `login "***stripped***" failed`},
		"JSON":        {`{"password":"pa\"ss wörd\u0026"}`, `{"password":"***stripped***"}`},
		"query":       {`GET /?p=pa%22ss+w%C3%B6rd%26 failed`, `GET /?p=***stripped*** failed`},
		"path":        {`GET /pa%22ss%20w%C3%B6rd&`, `GET /***stripped***`},
		"base64":      {`basic cGEic3Mgd8O2cmQm`, `basic ***stripped***`},
		"several":     {key, "***stripped***"},
		"one line":    {"line AQEFAASCBKcwggSjAgEAAoIB is bad", "line ***stripped*** is bad"},
		"token":       {"token eyJhbGciOiJSUzI1NiJ9.e30.c2ln expired", "token ***stripped*** expired"},
		"tokens":      {request.VolumeContext["csi.storage.k8s.io/serviceAccount.tokens"], "***stripped***"},
		"at the cut":  {strings.Repeat("x", 505) + key, ""},
		"harmless":    {"volume-1 of share public failed", "volume-1 of share public failed"},
		"no message":  {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			message = test.message
			_, err := c.Node().NodeStageVolume(t.Context(), request)
			var failed *CallError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, codes.PermissionDenied, failed.Code)
			if test.want != "" {
				require.Equal(t, test.want, strings.TrimSpace(failed.Message))
			}
			for _, secret := range secrets {
				require.NotContains(t, texts(fmt.Errorf("wrapped: %w", err)), secret)
			}
		})
	}
}

// TestAllSecretFieldsAreStripped: each field of the specification with the option csi_secret counts.
func TestAllSecretFieldsAreStripped(t *testing.T) {
	const secret = "hunter2-secret"
	found := 0
	messages := csipb.File_csi_proto.Messages()
	for i := range messages.Len() {
		messageType, err := protoregistry.GlobalTypes.FindMessageByName(messages.Get(i).FullName())
		require.NoError(t, err)
		fields := messages.Get(i).Fields()
		for j := range fields.Len() {
			field := fields.Get(j)
			if isSecret, _ := proto.GetExtension(field.Options(), csipb.E_CsiSecret).(bool); !isSecret {
				continue
			}
			found++
			request := messageType.New()
			require.True(t, field.IsMap(), "%s", field.FullName())
			request.Mutable(field).Map().Set(protoreflect.ValueOfString("key").MapKey(), protoreflect.ValueOfString(secret))
			failed := (&call{request: request.Interface()}).newError(status.Error(codes.Internal, "no "+secret))
			require.Equal(t, "no "+redaction.Marker, failed.Message, "%s", field.FullName())
		}
	}
	require.GreaterOrEqual(t, found, 10)
}

// TestTextsOfDrivers: texts stay short, in one line, and valid.
func TestTextsOfDrivers(t *testing.T) {
	for name, test := range map[string]struct{ driver, message string }{
		"long":    {strings.Repeat("d", 1<<20), strings.Repeat("ä", 1<<20)},
		"lines":   {"d\ne", "one\ntwo\r\x1b[2K\u2028three"},
		"invalid": {"d\xff", "a\xff\xfeb"},
	} {
		t.Run(name, func(t *testing.T) {
			err := (&call{driver: test.driver, method: "/csi.v1.Node/NodeStageVolume"}).newError(errors.New(test.message))
			require.Less(t, len(err.Error()), 2*brief.Longest)
			require.True(t, utf8.ValidString(err.Error()))
			require.NotContains(t, err.Error(), "\n")
			require.NotContains(t, err.Error(), "\x1b")
		})
	}
}

// A rawCodec sends and receives the bytes of messages.
type rawCodec struct{}

func (rawCodec) Name() string                       { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error { *v.(*[]byte) = data; return nil }

// TestUnreadableAnswers: the driver may have acted before it answered.
func TestUnreadableAnswers(t *testing.T) {
	requireNoLeak(t)
	endpoint := socketPath(t)
	var answer []byte
	answers := 1
	server := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.MaxSendMsgSize(16<<20),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			var request []byte
			if err := stream.RecvMsg(&request); err != nil {
				return err
			}
			for range answers {
				if err := stream.SendMsg(&answer); err != nil {
					return err
				}
			}
			return nil
		}))
	l := listen(t, endpoint)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l)
	}()
	defer func() {
		server.Stop()
		<-ended
	}()
	c := dial(t, Config{Endpoint: endpoint})
	for name, test := range map[string]struct {
		answer  []byte
		answers int
		kind    volume.ErrorKind
	}{
		"garbage":       {[]byte("\xff\xff\xff"), 1, volume.Uncertain},
		"invalid UTF-8": {[]byte("\x0a\x02\xff\xfe"), 1, volume.Uncertain}, // field 1: a node ID
		"too large":     {make([]byte, MaxMessage+1), 1, volume.Uncertain},
		"no answer":     {nil, 0, 0}, // newer versions of gRPC make this a code that drivers use, too
	} {
		t.Run(name, func(t *testing.T) {
			answer, answers = test.answer, test.answers
			_, err := c.Node().NodeGetInfo(t.Context(), &csipb.NodeGetInfoRequest{})
			require.Error(t, err)
			require.ErrorAs(t, err, new(*CallError))
			if test.kind != 0 {
				require.Equal(t, test.kind, volume.KindOf(err), "%v", err)
				require.Equal(t, codes.Internal, status.Code(err))
				require.True(t, IsUnreadable(err))
			}
		})
	}
}

// TestLongErrorText: a driver's error whose text gRPC does not receive may have any code.
func TestLongErrorText(t *testing.T) {
	requireNoLeak(t)
	endpoint := socketPath(t)
	d := &testDriver{stage: func(context.Context, *csipb.NodeStageVolumeRequest) error {
		return status.Error(codes.Aborted, strings.Repeat("x", maxHeaders+1))
	}}
	d.serve(t, endpoint)
	err := stage(t, dial(t, Config{Endpoint: endpoint}))
	require.Equal(t, volume.Uncertain, volume.KindOf(err), "%v", err)
	require.Equal(t, codes.Internal, status.Code(err))
}

// TestUnfinishedAnswers: a driver that resets a stream, or has a smaller limit for its answers, may have acted, with
// each code of gRPC.
func TestUnfinishedAnswers(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		for _, text := range []string{
			"stream terminated by RST_STREAM with error code: INTERNAL_ERROR",
			"grpc: trying to send message larger than max (2 vs. 1)",
		} {
			c := call{method: "m", codec: codec{encoded: true}}
			err := c.result(t.Context(), status.Error(code, text))
			require.Equal(t, volume.Uncertain, volume.KindOf(err), "%v", err)
			if code == codes.Canceled || code == codes.DeadlineExceeded { // the end of the call
				require.Equal(t, code, status.Code(err))
				require.False(t, IsUnreadable(err))
				continue
			}
			require.Equal(t, codes.Internal, status.Code(err))
		}
	}
}

// TestInvalidRequestsStayHere: a request that cannot be encoded is refused without a call.
func TestInvalidRequestsStayHere(t *testing.T) {
	requireNoLeak(t)
	endpoint := socketPath(t)
	d := &testDriver{}
	d.serve(t, endpoint)
	c := dial(t, Config{Endpoint: endpoint})
	for name, id := range map[string]string{
		"invalid UTF-8": "v\xff",
		"too large":     strings.Repeat("v", MaxMessage+1),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.Node().NodeStageVolume(t.Context(), &csipb.NodeStageVolumeRequest{VolumeId: id})
			require.Error(t, err)
			require.Equal(t, volume.Final, volume.KindOf(err), "%v", err)
			require.Zero(t, d.calls.Load())
		})
	}
	require.NoError(t, stage(t, c), "the connection is as before")
}

// A lateContext has a deadline that has passed, and a timer that has not fired yet.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now().Add(-time.Nanosecond), true }

// TestLateTimer: an error after the deadline of a context wraps that of the deadline, and one before it does
// not: then the deadline is the driver's.
func TestLateTimer(t *testing.T) {
	late := status.Error(codes.DeadlineExceeded, "context deadline exceeded")
	for _, encoded := range []bool{false, true} {
		c := call{method: "m", codec: codec{encoded: encoded}}
		require.ErrorIs(t, c.result(lateContext{t.Context()}, late), context.DeadlineExceeded)
		require.NotErrorIs(t, c.result(t.Context(), late), context.DeadlineExceeded)
	}
}
