//! The profiles of a folder queue: `profiles/NAME.md` [J2].

use std::path::PathBuf;

use domain::ProfileOwner;
use protocol::{CreateProfileRequest, CreateProfileResponse};

use super::QueueSync;
use crate::profile_files::profiles_in;

/// The directory beside the folders of the queue.
const DIRECTORY: &str = "profiles";

impl QueueSync<'_> {
    /// Creates a version of each profile whose file has changed. Called before jobs are submitted, which may name them.
    pub(super) async fn create_profiles(&mut self) {
        let (files, problems) = profiles_in(&self.queue.root().join(DIRECTORY));
        for problem in problems {
            if self.profiles.insert(PathBuf::from(&problem), String::new()).is_none() {
                self.console.warn(&problem);
            }
        }
        for file in files {
            if self.profiles.get(&file.path) == Some(&file.text) {
                continue;
            }
            let request = CreateProfileRequest {
                name: file.name,
                product_id: Some(ProfileOwner::Fleet),
                body_md: file.text.clone(),
            };
            match self.client.post::<_, CreateProfileResponse>("/profiles", &request).await {
                Ok(_) => {}
                Err(error) if error.code().is_some() => {
                    self.console.warn(&format!("{DIRECTORY}/{}.md is not a profile: {error}", request.name));
                }
                // Not reached: it is created before the next submit.
                Err(_) => continue,
            }
            self.profiles.insert(file.path, file.text);
        }
    }
}
