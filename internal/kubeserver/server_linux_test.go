package kubeserver_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/kubeserver"
)

// TestKubeServer: objects outlive the API server's crash, an expired certificate is refused by
// clients, and revisions that etcd has compacted are gone.
func TestKubeServer(t *testing.T) {
	s := kubeserver.Start(t)
	c := newClient(t, s)
	var created object
	require.Equal(t, http.StatusCreated, c.call(http.MethodPost, "/api/v1/namespaces/default/configmaps",
		map[string]any{"metadata": map[string]any{"name": "a"}}, &created))
	require.NotEmpty(t, created.Metadata.UID)

	s.Kill()
	_, err := c.http.Get(s.URL + "/readyz")
	require.Error(t, err)
	require.NoError(t, s.Restart(t.Context()))
	var read object
	require.Equal(t, http.StatusOK, c.call(http.MethodGet, "/api/v1/namespaces/default/configmaps/a", nil, &read))
	require.Equal(t, created, read)

	require.Equal(t, http.StatusCreated, c.call(http.MethodPost, "/api/v1/namespaces/default/configmaps",
		map[string]any{"metadata": map[string]any{"name": "b"}}, nil))
	require.NoError(t, s.Compact(t.Context()))
	require.NoError(t, s.Restart(t.Context()), "the API server's own cache holds older revisions")
	require.Equal(t, http.StatusGone, c.call(http.MethodGet,
		"/api/v1/namespaces/default/configmaps?resourceVersionMatch=Exact&resourceVersion="+created.Metadata.ResourceVersion, nil, nil))

	require.NoError(t, s.IssueCertificate(time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)))
	require.Eventually(t, func() bool {
		c.http.CloseIdleConnections()
		_, err = c.http.Get(s.URL + "/readyz")
		var invalid x509.CertificateInvalidError
		return errors.As(err, &invalid) && invalid.Reason == x509.Expired
	}, 2*time.Minute, 50*time.Millisecond)
	require.NoError(t, s.IssueCertificate(time.Now().Add(-time.Hour), time.Now().Add(time.Hour)))
	require.Eventually(t, func() bool {
		c.http.CloseIdleConnections()
		response, err := c.http.Get(s.URL + "/readyz")
		return err == nil && response.Body.Close() == nil
	}, 2*time.Minute, 50*time.Millisecond)
}

type object struct {
	Metadata struct {
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
}

// A client calls the API server as its admin.
type client struct {
	t    *testing.T
	http *http.Client
	s    *kubeserver.Server
}

func newClient(t *testing.T, s *kubeserver.Server) client {
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(s.CA))
	return client{t, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}, s}
}

// call returns the status code of a request and decodes its answer unless answer is nil.
func (c client) call(method, path string, body, answer any) int {
	c.t.Helper()
	text, err := json.Marshal(body)
	require.NoError(c.t, err)
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.s.URL+path, bytes.NewReader(text))
	require.NoError(c.t, err)
	request.Header.Set("Authorization", "Bearer "+c.s.Token)
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	require.NoError(c.t, err)
	read, err := io.ReadAll(response.Body)
	require.NoError(c.t, err)
	require.NoError(c.t, response.Body.Close())
	if answer != nil {
		require.NoError(c.t, json.Unmarshal(read, answer), "%s", read)
	}
	return response.StatusCode
}
