package contract

import "fmt"

// A hint ends the message of a test that fails for a sound plugin with a wrong configuration: it names the
// field of volumetest.Config that describes such a plugin.
const (
	hintPlain           = "; if a volume is a plain directory and no mount, set Config.Plain"
	hintMount           = "; if a volume is a mount, clear Config.Plain"
	hintEphemeral       = "; if TearDown deletes the files of a volume, set Config.Ephemeral"
	hintPersistent      = "; if the files of a volume outlive TearDown, clear Config.Ephemeral"
	hintRuntimeReadOnly = "; if the mount in the container alone is read-only, set Config.RuntimeReadOnly"
	hintNeverWritable   = "; if no volume of the plugin is writable, set Config.RuntimeReadOnly"
	hintReadOnly        = "; if SetUp mounts such a volume read-only, clear Config.RuntimeReadOnly"
)

// hintIf returns the hint, or an empty one.
func hintIf(applies bool, hint string) string {
	if !applies {
		return ""
	}
	return hint
}

// hint names the field of Config.Arguments and its other values.
func (a argument) hint() string {
	others := map[Handling][2]string{
		Refused:  {"ignores or honours", "Ignored or Honoured"},
		Ignored:  {"refuses or honours", "Refused or Honoured"},
		Honoured: {"refuses or ignores", "Refused or Ignored"},
	}
	if a.name == "FsUser" { // no plugin may refuse it
		others = map[Handling][2]string{Ignored: {"honours", "Honoured"}, Honoured: {"ignores", "Ignored"}}
	}
	other := others[a.handling]
	return fmt.Sprintf("; if the plugin %s %s, set Config.Arguments.%s to %s", other[0], a.name, a.name, other[1])
}
