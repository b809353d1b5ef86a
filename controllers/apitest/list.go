package apitest

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/volumekit/volumekit/controllers/api"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// get returns a stored object.
func (c *Cluster) get(k *kind, key api.Key, options metav1.GetOptions) (api.Object, error) {
	s := c.server
	version, err := parseVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if err := c.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if err := s.checkReached(version); err != nil {
		return nil, err
	}
	object, ok := s.tables[k].objects[key]
	if !ok {
		return nil, k.notFound(key.Name)
	}
	return object, nil
}

// A page is the result of a list. Its objects are shared.
type page struct {
	metav1.ListMeta
	objects []api.Object
}

// A continuation is the content of a continue token.
type continuation struct {
	Version uint64  `json:"rv"`
	After   api.Key `json:"start"`
}

// list returns a page of the selected objects at one version: that of the continue token, the exact
// one of options, or one that is not older than options require.
func (c *Cluster) list(k *kind, namespace string, options metav1.ListOptions) (page, error) {
	s := c.server
	sel, err := newSelection(k, namespace, options)
	if err != nil {
		return page{}, err
	}
	if errs := validateListOptions(&options); len(errs) > 0 {
		return page{}, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", errs)
	}
	version, err := parseVersion(options.ResourceVersion)
	if err != nil {
		return page{}, err
	}
	if options.Continue != "" && version > 0 {
		return page{}, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	from, err := parseContinue(options.Continue)
	if err != nil {
		return page{}, err
	}
	if err := c.lock(); err != nil {
		return page{}, err
	}
	defer s.mu.Unlock()
	if err := s.checkReached(max(version, from.Version)); err != nil {
		return page{}, err
	}
	at := s.version
	exact := options.ResourceVersionMatch == metav1.ResourceVersionMatchExact ||
		options.ResourceVersionMatch == "" && options.Limit > 0 && version > 0
	switch {
	case from.Version > 0:
		at = from.Version
	case exact:
		at = version
	case options.ResourceVersion != "":
		at = max(s.faults.listVersion(c, version, at), s.tables[k].compacted)
	}
	t := s.tables[k]
	found, ok := t.findAt(sel, at)
	if !ok {
		return page{}, apierrors.NewResourceExpired("The provided continue parameter or resourceVersion is too old: the changes since are compacted")
	}
	if from.Version > 0 {
		first, present := slices.BinarySearchFunc(found, from.After, func(o api.Object, key api.Key) int { return compareKeys(api.KeyOf(o), key) })
		if present {
			first++
		}
		found = found[first:]
	}
	p := page{objects: found}
	p.ResourceVersion = formatVersion(at)
	if limit := int(options.Limit); limit > 0 && len(found) > limit {
		p.objects = found[:limit]
		p.Continue = formatContinue(continuation{at, api.KeyOf(found[limit-1])})
		if sel.isAll() {
			remaining := int64(len(found) - limit)
			p.RemainingItemCount = &remaining
		}
	}
	return p, nil
}

// checkReached refuses reads from a version that the server has not reached.
func (s *Server) checkReached(version uint64) error {
	if version <= s.version {
		return nil
	}
	err := apierrors.NewTimeoutError("Too large resource version: "+formatVersion(version)+", current: "+formatVersion(s.version), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}

// parseVersion returns 0 for "" and "0".
func parseVersion(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest("invalid resource version " + strconv.Quote(text))
	}
	return version, nil
}

func formatContinue(c continuation) string {
	text, err := json.Marshal(c)
	if err != nil {
		return "" // impossible for this type
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func parseContinue(token string) (c continuation, err error) {
	if token == "" {
		return c, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil || c.Version == 0 {
		return c, apierrors.NewBadRequest("continue key is not valid")
	}
	return c, nil
}
