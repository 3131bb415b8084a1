use crate::world::World;

/// What the verifier gives up at.
const LIMIT: u32 = 1_000_000;

#[test]
fn programs_stay_far_below_the_verifiers_limit() {
    let Some(world) = World::new() else { return };
    let dataplane = world.open();
    let programs = dataplane.programs().unwrap();
    assert_eq!(programs.len(), 11);
    for program in programs {
        let Some(verified) = program.verified_instructions else { continue };
        println!("{}: {verified} instructions verified", program.name);
        assert!(verified < LIMIT / 4, "{}: {verified}", program.name);
    }
}
