// Package options reads and checks the options of a mount: the words that mount(8) accepts
// after -o, and the flags of the kernel that some of them stand for.
//
// # Glossary
//
//   - Option: one word, "noexec" or "size=1m", without commas but for those of a label.
//   - Flag: a property of a mount apart from its file system, such as read-only. Each flag
//     has two options, one that sets it and one that clears it.
//   - Data: the options that only the file system understands.
//   - Super option: an option for all mounts of a file system, such as "sync".
//   - Label: the text by which SELinux knows a file, such as
//     system_u:object_r:container_file_t:s0:c127,c456. Quotes around it keep its commas together.
//   - Subject: the setting that an option is about. Two different options on one subject
//     contradict each other.
//   - Secret: an option whose value no text may show.
//   - Grant: the permission to use an option that is dangerous on a shared machine, see
//     [Allow].
//   - Redact: to remove secrets from a text of the kernel or of a program.
//
// # Guarantees
//
//   - Functions compute on their arguments alone. No function makes a system call.
//   - A refusal is a [*failure.InputError]. It names the option, but never a secret.
//   - The work grows in proportion to the number of options, also of repeated ones.
package options
