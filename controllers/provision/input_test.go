package provision_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A picky storage has 1Ti, and no parameter other than color: red or blue.
type picky struct{ *storage }

func (p picky) Provision(ctx context.Context, o provision.Options) (*v1.PersistentVolume, error) {
	for name, value := range o.StorageClass.Parameters {
		path := field.NewPath("parameters").Key(name)
		if name != "color" {
			return nil, field.Invalid(path, value, "unknown parameter")
		}
		if value != "red" && value != "blue" {
			return nil, fmt.Errorf("%w: %w", field.NotSupported(path, value, []string{"red", "blue"}), volume.ErrInfeasible)
		}
	}
	size := o.PVC.Spec.Resources.Requests[v1.ResourceStorage]
	if size.Cmp(resource.MustParse("1Ti")) > 0 {
		path := field.NewPath("spec", "resources", "requests").Key("storage")
		return nil, fmt.Errorf("%w: %w", field.Invalid(path, size.String(), "the storage has 1Ti"), volume.ErrInfeasible)
	}
	return p.storage.Provision(ctx, o)
}

// A history is the past of a claim at the start of the controller.
type history string

const (
	isNew           history = "new"
	afterRestart    history = "after a restart"
	guardedByTenant history = "with the finalizer from a tenant"
)

// forEachHistory runs a test with each history.
func forEachHistory(t *testing.T, name string, test func(*testing.T, history)) {
	for _, h := range []history{isNew, afterRestart, guardedByTenant} {
		t.Run(name+", "+string(h), func(t *testing.T) { test(t, h) })
	}
}

// begin creates a claim and starts the controller.
func (h history) begin(w *world, claim *v1.PersistentVolumeClaim) {
	w.Helper()
	if h == guardedByTenant {
		claim.Finalizers = append(claim.Finalizers, provision.ClaimFinalizer)
	}
	w.createClaim(claim)
	_, end := w.start()
	if h == afterRestart {
		w.wait(time.Second)
		end()
		w.start()
	}
}

// TestBadInput: an event on the claim names the field and the beginning of the value. Neither storage
// nor an object is made.
func TestBadInput(t *testing.T) {
	long := strings.Repeat("x", 4096)
	parameter := func(name, value string) func(*storagev1.StorageClass) {
		return func(c *storagev1.StorageClass) { c.Parameters = map[string]string{name: value} }
	}
	size := func(text string) func(*v1.PersistentVolumeClaim) {
		return func(c *v1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse(text)
		}
	}
	late := func(c *storagev1.StorageClass) { c.VolumeBindingMode = &consumer }
	node := func(name string) func(*v1.PersistentVolumeClaim) {
		return func(c *v1.PersistentVolumeClaim) { c.Annotations[provision.SelectedNodeAnnotation] = name }
	}
	attributes := func(name string) func(*v1.PersistentVolumeClaim) {
		return func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = &name }
	}
	name := func(name string) func(*provision.Config) {
		return func(c *provision.Config) { c.VolumeName = func(*v1.PersistentVolumeClaim) string { return name } }
	}
	tests := map[string]struct {
		config func(*provision.Config)
		class  func(*storagev1.StorageClass)
		claim  func(*v1.PersistentVolumeClaim)
		event  string
	}{
		"too large for the storage": {claim: size("1Ei"), event: `spec.resources.requests[storage]: Invalid value: "1Ei": the storage has 1Ti`},
		"too large for any storage": {claim: size("100E"), event: `spec.resources.requests[storage]: Invalid value: "100E": too large`},
		"unknown parameter":         {class: parameter("colour", "red"), event: `parameters[colour]: Invalid value: "red": unknown parameter`},
		"unknown long parameter":    {class: parameter(long, "red"), event: `x]: Invalid value: "red": unknown parameter`},
		"long value":                {class: parameter("color", long), event: `parameters[color]: Unsupported value: "xxx`},
		"NUL in a value":            {class: parameter("color", "a\x00b"), event: `parameters[color]: Unsupported value: "a\x00b"`},
		"lines in an unknown name":  {class: parameter("a\nb\x1b[2J", "red"), event: `parameters[a b [2J]: Invalid value: "red"`},
		"selected node":             {class: late, claim: node("../x"), event: `metadata.annotations[volume.kubernetes.io/selected-node]: Invalid value: "../x"`},
		"long selected node":        {class: late, claim: node(long), event: `metadata.annotations[volume.kubernetes.io/selected-node]: Invalid value: "xxx`},
		"attributes class":          {claim: attributes("../x"), event: `spec.volumeAttributesClassName: Invalid value: "../x"`},
		"long attributes class":     {claim: attributes(long), event: `spec.volumeAttributesClassName: Invalid value: "xxx`},
		"name of the volume":        {config: name("../x"), event: `volume name "../x"`},
		"long name of the volume":   {config: name(long), event: `volume name "xxx`},
		"NUL in the volume's name":  {config: name("a\x00"), event: `volume name "a\x00"`},
		"volume without a name":     {config: name(""), event: `volume name ""`},
	}
	for name, test := range tests {
		forEachHistory(t, name, func(t *testing.T, h history) {
			inWorld(t, func(w *world) {
				w.config.Provisioner = picky{w.storage}
				class, claim := newClass("c"), newClaim("a", "c")
				if test.config != nil {
					test.config(&w.config)
				}
				if test.class != nil {
					test.class(class)
				}
				if test.claim != nil {
					test.claim(claim)
				}
				w.createClass(class)
				h.begin(w, claim)
				w.wait(time.Hour)
				events := slices.Compact(w.eventsOf("ProvisioningFailed"))
				require.Len(w, events, 1)
				require.Contains(w, events[0], test.event)
				require.LessOrEqual(w, len(events[0]), len("Warning ProvisioningFailed: ")+brief.Longest)
				require.True(w, utf8.ValidString(events[0]))
				require.False(w, strings.ContainsFunc(events[0], unicode.IsControl))
				if h != guardedByTenant || name != "selected node" && name != "long selected node" { // an annotation can change
					require.Empty(w, w.storage.calls)
				}
				require.Empty(w, w.storage.names())
				require.Empty(w, w.server.Calls(apitest.Call{Verb: apitest.Create}), "no object")
				for _, resource := range []string{"nodes", "volumeattributesclasses"} {
					require.Empty(w, w.server.Calls(apitest.Call{Resource: resource}), "a client may refuse the name")
				}
				w.deleteClaim("a")
				w.finish()
				w.checkNothingLeft()
			})
		})
	}
}

// TestEmptyClaim: the API server refuses a claim of 0 bytes, with the field and the value.
func TestEmptyClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.createClass(newClass("c"))
		claim := newClaim("a", "c")
		claim.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse("0")
		_, err := w.cluster.PersistentVolumeClaims(namespace).Create(w.Context(), claim, metav1.CreateOptions{})
		require.ErrorContains(w, err, `spec.resources.requests[storage]: Invalid value: "0": must be greater than zero`)
		w.wait(time.Hour)
		require.Empty(w, w.storage.calls)
		w.checkNothingLeft()
	})
}

// TestLongErrors: errors and panics of a Provisioner are stored with a short text.
func TestLongErrors(t *testing.T) {
	for name, fails := range map[string]fault{
		"error": func(context.Context, string) (early, late error) {
			return fmt.Errorf("%s: the cause", strings.Repeat("x", 1<<20)), nil
		},
		"panic": func(context.Context, string) (early, late error) { panic(strings.Repeat("x", 1<<20) + ": the cause") },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				log := &strings.Builder{}
				w.config.Logger = slog.New(slog.NewTextHandler(log, nil))
				w.storage.on("provision", fails)
				w.createClass(newClass("c"))
				w.createClaim(newClaim("a", "c"))
				w.start()
				w.wait(time.Second)
				require.Contains(w, w.eventsOf("ProvisioningFailed")[0], ": the cause")
				require.Contains(w, log.String(), ": the cause")
				require.Less(w, len(log.String()), 10*brief.Longest)
			})
		})
	}
}
