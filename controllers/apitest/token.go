package apitest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	issuer        = "https://kubernetes.default.svc"
	tokenLifetime = 3600 // in seconds, the default
	leastLifetime = 600
	mostLifetime  = 1 << 32
)

var tokenRequestKind = schema.GroupKind{Group: authenticationv1.GroupName, Kind: "TokenRequest"}

// createToken returns a request with a token that has the form and the claims of a service account
// token, and no valid signature.
func (c *Cluster) createToken(key api.Key, request *authenticationv1.TokenRequest, options metav1.CreateOptions) (*authenticationv1.TokenRequest, error) {
	request = request.DeepCopy()
	if err := c.lock(); err != nil {
		return nil, err
	}
	defer c.server.mu.Unlock()
	account, ok := c.server.tables[accountKind].objects[key]
	if !ok {
		return nil, accountKind.notFound(key.Name)
	}
	spec := &request.Spec
	if len(spec.Audiences) == 0 {
		spec.Audiences = []string{issuer}
	}
	setPointer(&spec.ExpirationSeconds, tokenLifetime)
	path := specPath.Child("expirationSeconds")
	switch seconds := *spec.ExpirationSeconds; {
	case seconds < leastLifetime:
		return nil, apierrors.NewInvalid(tokenRequestKind, "", field.ErrorList{field.Invalid(path, seconds, "may not specify a duration less than 10 minutes")})
	case seconds > mostLifetime:
		return nil, apierrors.NewInvalid(tokenRequestKind, "", field.ErrorList{field.Invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")})
	}
	if err := c.server.checkBound(key, spec.BoundObjectRef); err != nil {
		return nil, err
	}
	now := time.Now()
	request.Name, request.Namespace, request.UID = key.Name, key.Namespace, account.GetUID()
	request.CreationTimestamp = metav1.NewTime(now).Rfc3339Copy()
	expires := metav1.NewTime(now.Add(time.Duration(*spec.ExpirationSeconds) * time.Second)).Rfc3339Copy()
	request.Status = authenticationv1.TokenRequestStatus{ExpirationTimestamp: expires}
	if len(options.DryRun) == 0 {
		request.Status.Token = c.server.token(key, *spec, now, expires.Time)
	}
	return request, nil
}

// checkBound refuses tokens that are bound to an object that does not exist, or to a pod of another
// service account. It requires s.mu.
func (s *Server) checkBound(account api.Key, ref *authenticationv1.BoundObjectReference) error {
	if ref == nil {
		return nil
	}
	kinds := map[string]*kind{"Pod": podKind, "Secret": secretKind, "Node": nodeKind}
	k := kinds[ref.Kind]
	if k == nil || ref.APIVersion != "v1" {
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s %s", ref.APIVersion, ref.Kind))
	}
	key := api.Key{Namespace: account.Namespace, Name: ref.Name}
	if !k.namespaced {
		key.Namespace = ""
	}
	object, ok := s.tables[k].objects[key]
	if !ok {
		return k.notFound(ref.Name)
	}
	if pod, ok := object.(*v1.Pod); ok && pod.Spec.ServiceAccountName != account.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account.Name))
	}
	if ref.UID != "" && ref.UID != object.GetUID() {
		return k.conflict(ref.Name, fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record", ref.UID))
	}
	return nil
}

// token returns an unsigned token with the claims of a service account token.
func (s *Server) token(account api.Key, spec authenticationv1.TokenRequestSpec, from, until time.Time) string {
	claims := map[string]any{
		"iss": issuer, "aud": spec.Audiences, "sub": "system:serviceaccount:" + account.Namespace + ":" + account.Name,
		"iat": from.Unix(), "nbf": from.Unix(), "exp": until.Unix(),
		"kubernetes.io": map[string]any{"namespace": account.Namespace, "bound": spec.BoundObjectRef},
	}
	encode := func(value any) string {
		text, err := json.Marshal(value)
		if err != nil {
			return "" // impossible for these values
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	return encode(map[string]string{"alg": "none"}) + "." + encode(claims) + ".unsigned"
}
