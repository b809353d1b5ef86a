package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
)

// FuzzHandler: no request makes the server panic, and each gets an answer, unless its client has left.
func FuzzHandler(f *testing.F) {
	const inDefault = "/api/v1/namespaces/default/"
	f.Add("GET", "/apis", "", "application/json", "application/vnd.kubernetes.protobuf", []byte{})
	f.Add("GET", inDefault+"pods", "watch=true&timeoutSeconds=1", "", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", []byte{})
	f.Add("POST", inDefault+"configmaps", "dryRun=All", "application/json", "", []byte(`{"metadata":{"name":"a"}}`))
	f.Add("PUT", "/api/v1/namespaces/default/status", "", "application/yaml", "*/*", []byte("metadata: {name: default}"))
	f.Add("PATCH", "/api/v1/namespaces/default", "", "application/json-patch+json", "", []byte(`[{"op":"remove","path":"/metadata"}]`))
	f.Add("DELETE", inDefault+"persistentvolumeclaims", "labelSelector=a", "application/vnd.kubernetes.protobuf", "", []byte("k8s\x00"))
	f.Add("POST", inDefault+"serviceaccounts/default/token", "", "", "", []byte(`{"spec":{}}`))
	f.Fuzz(func(t *testing.T, method, path, query, contentType, accept string, body []byte) {
		handler := apitest.NewServer(apitest.Config{}).Connect("fuzz").Handler()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond) // ends a watch
		defer cancel()
		r := (&http.Request{
			Method: method, URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{"Content-Type": {contentType}, "Accept": {accept}},
			Body: io.NopCloser(bytes.NewReader(body)),
		}).WithContext(ctx)
		defer func() {
			p := recover()
			if err, ok := p.(error); p != nil && (!ok || !errors.Is(err, http.ErrAbortHandler) || ctx.Err() == nil) {
				panic(p)
			}
		}()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		require.GreaterOrEqual(t, w.Code, http.StatusOK)
	})
}
