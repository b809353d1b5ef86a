package spec

import (
	"os"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/options"
)

// A Spec describes one mount. Its fields are those of mount.Request.
type Spec struct {
	Source      string
	SourceFile  *os.File // the source of a bind mount, instead of Source
	Target      string
	FSType      string // empty: a bind mount
	List        []string
	Options     options.Options // the meaning of List, by Check
	Secrets     []options.Secret
	Stack       bool // mount on top of an existing mount
	Submounts   Submounts
	Propagation Propagation
	IDMap       IDMap
	Helper      HelperUse
	DeviceFile  bool // a device file as the source gets no "nodev"
	Remount     bool
}

// IsBind reports whether the spec is of a bind mount.
func (s *Spec) IsBind() bool { return s.FSType == "" }

// Check checks the spec and fills in Options.
func (s *Spec) Check(allow options.Allow) (err error) {
	if err := CheckPath("Target", s.Target); err != nil {
		return err
	}
	if s.Remount {
		return s.checkRemount(allow)
	}
	if err := s.checkRelations(); err != nil {
		return err
	}
	if strings.ContainsRune(s.Source, 0) {
		return failure.NewInputError("Source", s.Source, "a source must not contain NUL")
	}
	if s.Options, err = options.Parse(s.List, allow); err != nil {
		return err
	}
	if s.IsBind() {
		return s.checkBind()
	}
	if s.SourceFile != nil {
		return failure.NewInputError("SourceFile", s.SourceFile.Name(), "applies to bind mounts only")
	}
	if strings.ContainsAny(s.FSType, " \t\n,/\x00") {
		return failure.NewInputError("FSType", s.FSType, "must be one word, without comma and slash")
	}
	return options.CheckSecrets(s.Secrets, s.List, allow)
}

// checkBind checks the fields of a bind mount, which has no file system of its own.
func (s *Spec) checkBind() error {
	if s.SourceFile == nil || s.Source != "" {
		if err := CheckPath("Source", s.Source); err != nil {
			return err
		}
	}
	if err := s.refuseData(); err != nil {
		return err
	}
	if len(s.Secrets) > 0 {
		return failure.NewInputError("Secrets[0]", options.Redacted, "a bind mount has no options of the file system")
	}
	return nil
}

// refuseData names the first option for the file system, if there is one.
func (s *Spec) refuseData() error {
	if len(s.Options.Data) == 0 {
		return nil
	}
	option, reason := s.Options.Data[0], "not an option of a bind mount"
	if options.IsSuper(option) {
		reason = "belongs to the file system, a bind mount cannot change it"
	}
	return failure.NewInputError(options.FieldOf("Options", slices.Index(s.List, option)), option, reason)
}

// AdmitDevice is called for a bind mount of a device file, which cannot be opened with "nodev". It
// removes the "nodev" that Check has added, if DeviceFile is set, and refuses the mount otherwise. A spec
// that lists "nodev" itself is accepted unchanged.
func (s *Spec) AdmitDevice() error {
	if !s.IsBind() || s.Options.Set&options.NoDev == 0 || slices.Contains(s.List, "nodev") {
		return nil
	}
	if s.DeviceFile {
		s.Options.Set &^= options.NoDev
		return nil
	}
	field, name := "Source", s.Source
	if s.SourceFile != nil && name == "" {
		field, name = "SourceFile", s.SourceFile.Name()
	}
	return failure.NewInputError(field, name, "device files are not allowed here: mount.Config.Allow.Dev or Request.DeviceFile allows them")
}
