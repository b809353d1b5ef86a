package manager

// A state is what is known of something that can be there.
type state int

const (
	absent    state = iota // it is not there
	uncertain              // it may be there: treated as if it were, and never as if it were in order
	present                // it is there, and in order
)

func (s state) String() string {
	switch s {
	case absent:
		return "absent"
	case present:
		return "present"
	}
	return "uncertain"
}
