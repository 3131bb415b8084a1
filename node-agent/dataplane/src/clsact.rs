//! Attaching to an interface on kernels before 6.6, which have no TCX links.
//!
//! A filter of a `clsact` qdisc stays when its maker ends. Priority and handle are fixed, so that a later agent finds the
//! filter of an earlier one and exchanges its program in one step.

use std::mem;

use aya::programs::tc::{self, NlOptions, SchedClassifierLink, TcAttachOptions, TcHandle};
use aya::programs::{ProgramError, SchedClassifier, TcAttachType};

use crate::Error;
use crate::pins::{Hook, Role};
use crate::programs::Classifiers;

const PRIORITY: u16 = 1;
const HANDLE: TcHandle = TcHandle::new(0, 1);

/// Puts both programs of a role on the interface, in place of earlier ones.
pub(crate) fn attach(programs: &mut Classifiers, role: Role, ifname: &str) -> Result<(), Error> {
    // "Already there" is the usual case after a restart, and any real failure shows in the next step.
    if let Err(error) = tc::qdisc_add_clsact(ifname) {
        tracing::debug!(ifname, %error, "clsact qdisc not added");
    }
    for hook in Hook::BOTH {
        let name = role.program(hook);
        let direction = match hook {
            Hook::From => TcAttachType::Ingress,
            Hook::To => TcAttachType::Egress,
        };
        place(programs.get(name)?, ifname, direction).map_err(|source| Error::Program { name, source })?;
    }
    Ok(())
}

fn place(program: &mut SchedClassifier, ifname: &str, direction: TcAttachType) -> Result<(), ProgramError> {
    let options = NlOptions { priority: PRIORITY, handle: HANDLE, classid: None };
    let id = match program.attach_with_options(ifname, direction, TcAttachOptions::Netlink(options)) {
        Ok(id) => id,
        Err(_) => {
            let earlier = SchedClassifierLink::attached(ifname, direction, PRIORITY, HANDLE, None)?;
            program.attach_to_link(earlier)?
        }
    };
    // The link would remove the filter when dropped, and the filter is to stay.
    mem::forget(program.take_link(id)?);
    Ok(())
}
