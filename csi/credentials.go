package csi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/volumekit/volumekit/csi/internal/secretdata"
	"github.com/volumekit/volumekit/internal/notfound"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tokensFor returns the tokens that a driver requests for a pod, as JSON by audience. It is empty if
// the driver requests none. An error of the getter is transient.
func (p *Plugin) tokensFor(ctx context.Context, pod *v1.Pod, requests []storagev1.TokenRequest) (string, error) {
	if len(requests) == 0 {
		return "", nil
	}
	if p.config.Tokens == nil {
		return "", fmt.Errorf("tokens of a service account without Config.Tokens: %w", volume.ErrNotSupported)
	}
	all := map[string]authenticationv1.TokenRequestStatus{}
	for _, request := range requests {
		token, err := p.config.Tokens.GetServiceAccountToken(ctx, pod, &v1.ServiceAccountTokenProjection{
			Audience: request.Audience, ExpirationSeconds: request.ExpirationSeconds,
		})
		if err != nil {
			return "", util.Transient(fmt.Errorf("token of a service account for audience %q: %w", request.Audience, err))
		}
		all[request.Audience] = authenticationv1.TokenRequestStatus{
			Token: string(token), ExpirationTimestamp: metav1.NewTime(expiryOf(string(token))),
		}
	}
	text, err := json.Marshal(all)
	return string(text), err
}

// expiryOf returns the end of a token's life, by its claim exp, in UTC. It is zero for a text that is
// no JSON Web Token. The token is not verified.
func expiryOf(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expires float64 `json:"exp"`
	}
	const latest = 253402300799 // the last second of the year 9999, the latest in JSON
	if json.Unmarshal(text, &claims) != nil || claims.Expires <= 0 || claims.Expires > latest {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expires), 0).UTC()
}

// secretsOf returns the data of a Secret; none for nil. A missing or unsuitable Secret is a transient
// error, since Secrets are created and changed at any time. No error has a part of the data.
func (p *Plugin) secretsOf(ctx context.Context, ref *v1.SecretReference) (map[string]string, error) {
	if ref == nil {
		return nil, nil
	}
	if p.config.Secrets == nil {
		return nil, fmt.Errorf("secret %s/%s without Config.Secrets: %w", ref.Namespace, ref.Name, volume.ErrNotSupported)
	}
	secret, err := p.config.Secrets.GetSecret(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return nil, util.Transient(notfound.Named("secret "+ref.Namespace+"/"+ref.Name, err))
	}
	return secretdata.Of(secret)
}

// publishSecretRef returns the Secret for publishing. That of an inline volume is in the namespace of
// the pod.
func (s source) publishSecretRef(pod *v1.Pod) *v1.SecretReference {
	switch {
	case s.persistent != nil:
		return s.persistent.NodePublishSecretRef
	case s.inline.NodePublishSecretRef != nil:
		return &v1.SecretReference{Namespace: pod.Namespace, Name: s.inline.NodePublishSecretRef.Name}
	}
	return nil
}
