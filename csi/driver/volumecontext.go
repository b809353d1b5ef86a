package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The entries of a volume context. Others are ignored: callers add theirs.
const (
	// VersionKey is the version of the other entries: "1".
	VersionKey = "volumekit.io/version"
	// SourceKey is the source of the persistent volume in JSON, such as {"local":{"path":"/mnt/a"}}.
	SourceKey = "volumekit.io/source"
)

const (
	contextVersion = "1"
	// maxSource leaves room in the 4 KiB of a context for the entries of callers.
	maxSource    = 3 << 10
	ephemeralKey = "csi.storage.k8s.io/ephemeral"
)

// newContext returns the context of a volume with a source.
func newContext(source string) map[string]string {
	return map[string]string{VersionKey: contextVersion, SourceKey: source}
}

// encodeSource returns the source of a persistent volume as a context has it.
func encodeSource(source v1.PersistentVolumeSource) (string, error) {
	text, err := json.Marshal(source)
	if err == nil && len(text) > maxSource {
		err = fmt.Errorf("the source of the volume has %d bytes in JSON: must be at most %d", len(text), maxSource)
	}
	if err != nil {
		return "", err
	}
	_, err = parseSource(field.NewPath("source"), string(text))
	return string(text), err
}

// contextSource returns the source in a context, or "" if the context has no entries of the driver.
func contextSource(of map[string]string) (string, error) {
	at := field.NewPath("volumeContext")
	source, described := of[SourceKey]
	switch version, versioned := of[VersionKey]; {
	case of[ephemeralKey] == "true":
		return "", volume.Invalid(at.Key(ephemeralKey), "true", "the driver has no ephemeral volumes")
	case !described && !versioned:
		return "", nil
	case version != contextVersion:
		return "", volume.Invalid(at.Key(VersionKey), version, "must be "+contextVersion)
	}
	_, err := parseSource(at.Key(SourceKey), source)
	return source, err
}

// parseSource accepts one source without unknown fields.
func parseSource(at *field.Path, text string) (source v1.PersistentVolumeSource, err error) {
	if len(text) > maxSource {
		return source, volume.Invalid(at, text, fmt.Sprintf("must be at most %d bytes", maxSource))
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&source); err != nil {
		return v1.PersistentVolumeSource{}, volume.Invalid(at, text, "not the source of a persistent volume: "+input.Shorten(err.Error()))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return v1.PersistentVolumeSource{}, volume.Invalid(at, text, "has text after the source")
	}
	spec := volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "name"}}, false)
	spec.PersistentVolume.Spec.PersistentVolumeSource = source
	if err := spec.Validate(); err != nil || source == (v1.PersistentVolumeSource{}) {
		return v1.PersistentVolumeSource{}, volume.Invalid(at, text, "must have one source")
	}
	return source, nil
}

// A described volume is one whose source is known.
type described struct {
	id     volumeID
	source string
}

// persistentVolume returns the volume with its name and its source alone.
func (v described) persistentVolume() (*v1.PersistentVolume, error) {
	source, err := parseSource(field.NewPath("source"), v.source)
	if err != nil {
		return nil, err
	}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: v.id.name}}
	pv.Spec.PersistentVolumeSource = source
	return pv, nil
}

// describe returns the volume with an ID: by the context if it describes the volume, or else by the
// records. A volume without either is NOT_FOUND.
func (d *driver) describe(_ context.Context, id volumeID, volumeContext map[string]string) (described, error) {
	source, err := contextSource(volumeContext)
	if err != nil {
		return described{}, err
	}
	if source == "" {
		if source, err = d.recordedSource(id); err != nil {
			return described{}, err
		}
	}
	switch {
	case source == "":
		return described{}, errNoVolume(id)
	case !id.isOf(source):
		return described{}, volume.Invalid(field.NewPath("volumeContext").Key(SourceKey), source, "is not that of the volume with this ID")
	}
	return described{id, source}, nil
}

// recordedSource returns the source in the records of a volume, or "".
func (d *driver) recordedSource(id volumeID) (string, error) {
	if d.controls() {
		if rec, err := d.createdVolume(id); rec != nil || err != nil {
			return rec.source(), err
		}
		if rec, err := d.attached.read(id.text); err != nil {
			return "", err
		} else if rec != nil {
			return rec.Source, nil
		}
	}
	rec, err := d.onNode.read(id.text)
	if rec == nil || err != nil {
		return "", err
	}
	return rec.Source, nil
}

// createdVolume returns the record of a created volume with an ID, or nil.
func (d *driver) createdVolume(id volumeID) (*volumeRecord, error) {
	if id.digest == "" {
		return nil, nil
	}
	rec, err := d.volumes.read(id.name)
	if err != nil || rec == nil || rec.ID != id.text {
		return nil, err
	}
	return rec, nil
}

func (r *volumeRecord) source() string {
	if r == nil {
		return ""
	}
	return r.Source
}

func errNoVolume(id volumeID) error {
	return codedf(codes.NotFound, "volume %s: not known, and without a volume context", input.Quote(id.text))
}
